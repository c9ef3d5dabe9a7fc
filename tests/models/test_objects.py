"""How much code a training step needs: compiling time is the number of objects."""

import numpy as np
import pytest

import renaissance as rn
from renaissance import engine
from renaissance.ir.plan import Host
from renaissance.kernels.lower import lower
from renaissance.models import vgg16_bn
from renaissance.nn import Conv2d
from renaissance.nn import functional as F
from renaissance.optim import SGD

MOST_OBJECTS = 40


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_vgg_training_step_needs_few_objects(precision):
    rn.seed(0)
    with rn.executor("null"):
        model = vgg16_bn()
        for layer in model.modules():  # as the benchmarks have it: batch norm has a bias of its own
            if isinstance(layer, Conv2d):
                layer.bias = None
        optimizer = SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True)

        def step(x, y):
            with rn.precision(precision):
                loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        x, y = rn.tensor(np.zeros((16, 3, 224, 224), np.float32)), rn.tensor(np.zeros(16, np.int64))
        plan = rn.compile(step).plan(x, y)
    target = engine.host_target()
    keys = {lower(item, target, 2).key for item in plan.items if not isinstance(item.spec, Host)}
    assert len(keys) <= MOST_OBJECTS, sorted(keys)
