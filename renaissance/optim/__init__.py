"""Optimizers, schedules, parameter groups, clipping."""

from renaissance.optim.adam import Adam as Adam
from renaissance.optim.adam import AdamW as AdamW
from renaissance.optim.clip import clip_grad_norm_ as clip_grad_norm_
from renaissance.optim.optimizer import Optimizer as Optimizer
from renaissance.optim.optimizer import decay_groups as decay_groups
from renaissance.optim.schedule import WSD as WSD
from renaissance.optim.schedule import Constant as Constant
from renaissance.optim.schedule import Cosine as Cosine
from renaissance.optim.schedule import CosineWarmRestarts as CosineWarmRestarts
from renaissance.optim.schedule import Exponential as Exponential
from renaissance.optim.schedule import MultiStep as MultiStep
from renaissance.optim.schedule import OneCycle as OneCycle
from renaissance.optim.schedule import Polynomial as Polynomial
from renaissance.optim.schedule import Schedule as Schedule
from renaissance.optim.schedule import Step as Step
from renaissance.optim.sgd import LARS as LARS
from renaissance.optim.sgd import SGD as SGD
