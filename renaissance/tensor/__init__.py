"""Tensors: handles on nodes, with data, gradients, and ways to make and overwrite them."""

from renaissance.tensor.backward import backward as backward
from renaissance.tensor.handle import USED as USED
from renaissance.tensor.handle import Tensor as Tensor
from renaissance.tensor.handle import detached as detached
from renaissance.tensor.handle import from_region as from_region
from renaissance.tensor.handle import mark as mark
from renaissance.tensor.handle import region_of as region_of
from renaissance.tensor.make import as_tensor as as_tensor
from renaissance.tensor.make import from_numpy as from_numpy
from renaissance.tensor.make import from_storage as from_storage
from renaissance.tensor.make import full as full
from renaissance.tensor.make import join_flat as join_flat
from renaissance.tensor.make import ones as ones
from renaissance.tensor.make import realize as realize
from renaissance.tensor.make import tensor as tensor
from renaissance.tensor.make import zeros as zeros
from renaissance.tensor.overwrite import Part as Part
from renaissance.tensor.overwrite import overwrite as overwrite
from renaissance.tensor.promises import accompany as accompany
from renaissance.tensor.tracing import refuse_in_trace as refuse_in_trace
from renaissance.tensor.tracing import tracing as tracing
from renaissance.tensor.tracing import user_line as user_line
