"""Models against torchvision: names and shapes of their states, and with the same values and inputs the same numbers.

torchvision's numbers are in torchvision.json, which tools/torchvision_models.py writes.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

import renaissance as rn
from renaissance import models, nn
from tests import markdown

from .table import SMALL, WHOLE, drawn, part_of, state_digest, state_values

EXPECTED = json.loads((Path(__file__).parent / "torchvision.json").read_text())
PAGE = markdown.ROOT / "docs" / "models.md"
CONSTRUCTORS = {name: f for name, f in vars(models).items() if inspect.isfunction(f) and name != "mlp"}

# In float64 at odd sizes these compile hundreds of kernels that no other test shares: each takes 10 to 100 s.
MANY_KERNELS = ("resnet", "resnet of bottlenecks", "shufflenetv2", "efficientnet", "mobilenetv3", "densenet", "squeezenet 1.0")


def made_in_float64(case):
    """The model with the values of the table."""
    model = case.make(models)
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            setattr(module, name, nn.Parameter(rn.zeros(p.shape, "float64")))
        for name, b in module.named_buffers(recurse=False):
            if b.dtype.is_float:
                module.register_buffer(name, rn.zeros(b.shape, "float64"))
    model.load_state_dict(state_values(model._state()))
    return model


def along(y):
    return (y * rn.tensor(drawn("outputs", y.shape))).sum()


def shown(y):
    return [*y.numpy().reshape(-1)[:8].tolist(), along(y).item()]


def parts(named):
    found = {}
    for name, value in named:
        found[part_of(name)] = found.get(part_of(name), 0.0) + (value.numpy() * drawn("along " + name, value.shape)).sum()
    return found


def assert_near(got, expected, digits):
    assert len(got) == len(expected)
    if isinstance(got, dict):
        assert set(got) == set(expected)
        got, expected = [got[name] for name in expected], list(expected.values())
    np.testing.assert_allclose(got, expected, rtol=digits, atol=digits * max(1.0, np.abs(expected).max(initial=0.0)))


def check(case, digits=1e-8):
    """Outputs in evaluation and training, gradients, and running statistics."""
    expected = EXPECTED[case.name]
    model = made_in_float64(case)
    x = rn.tensor(drawn("inputs", case.shape), requires_grad=True)
    with rn.no_grad():
        assert_near(shown(model.eval()(x)), expected["evaluation"], digits)
    outputs = model.train()(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    total = along(outputs[0])
    for y in outputs[1:]:
        total = total + along(y) * 0.4
    total.backward()
    for y, numbers in zip(outputs, expected["training"], strict=True):
        assert_near(shown(y), numbers, digits)
    assert_near(parts([("x", x.grad), *((n, p.grad) for n, p in model.named_parameters())]), expected["gradients"], digits)
    assert_near(parts((n, b) for n, b in model.named_buffers() if b.dtype.is_float), expected["statistics"], digits)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in (*SMALL, *WHOLE)])
def test_states_have_the_names_order_and_shapes_of_torchvision(case):
    model = case.make(models)
    assert sum(p.size for p in model.parameters()) == EXPECTED[case.name]["parameters"]
    assert state_digest(model._state()) == EXPECTED[case.name]["state"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in MANY_KERNELS else [])
                                  for case in SMALL])
def test_small_models_give_the_numbers_of_torchvision(case):
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in WHOLE])
def test_whole_models_give_the_numbers_of_torchvision(case):
    check(case, 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in SMALL if "inception" not in case.name])
def test_small_models_in_bf16_stay_near_those_in_float32(case):
    rn.seed(0)
    model, x = case.make(models), rn.tensor(drawn("inputs", case.shape).astype(np.float32))
    exact = model(x).numpy()
    with rn.precision("bf16"):
        rounded = model(x)
    rounded.astype(rn.float32).sum().backward()
    assert rounded.dtype is rn.bfloat16 and {p.grad.dtype for p in model.parameters()} == {rn.float32}
    np.testing.assert_allclose(rounded.astype(rn.float32).numpy(), exact, atol=0.05 * np.abs(exact).max())


def test_a_compiled_step_of_a_model_is_the_uncompiled_one():
    def losses(wrap):
        rn.seed(0)
        model = models.resnet_cifar.CifarResNet(1)
        optimizer = rn.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        x, t = rn.normal(shape=(4, 3, 8, 8)), rn.tensor([1, 3, 5, 7])

        @wrap
        def step():
            loss = nn.functional.cross_entropy(model(x), t)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return [step().item() for _ in range(3)]

    plain = losses(lambda f: f)
    np.testing.assert_allclose(losses(rn.compile), plain, rtol=1e-5)
    assert plain[2] < plain[0]


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_a_constructor_says_how_many_parameters_it_makes(name):
    said = re.search(r"^ *([\d,]+) parameters, images of \d+ x \d+$", CONSTRUCTORS[name].__doc__, re.MULTILINE)
    assert int(said[1].replace(",", "")) == EXPECTED[name]["parameters"]


def test_the_page_of_models_says_what_the_constructors_say():
    rows = {name: cells for name, *cells in re.findall(r"^\| `models\.(\w+)` \| ([\d,]+) \| (\d+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)}
    assert set(rows) == set(CONSTRUCTORS)
    for name, (parameters, size, source) in rows.items():
        doc = inspect.getdoc(CONSTRUCTORS[name])
        assert f"{parameters} parameters, images of {size} x {size}\n" in doc
        assert re.search(r"source +(.*)", doc)[1].startswith(source)


def test_num_classes_and_small_images():
    assert models.resnet18(num_classes=10).fc.weight.shape == (10, 512)
    vgg = models.vgg16_bn(num_classes=10, grid=1, hidden=512, init_weights=False)
    assert sum(p.size for p in vgg.parameters()) == 15_253_578
    assert vgg.eval()(rn.zeros((1, 3, 32, 32))).shape == (1, 10)


@pytest.mark.slow
def test_inception_guesses_half_way_only_in_training():
    model = models.inception_v3(num_classes=7, init_weights=False)
    x = rn.zeros((1, 3, 299, 299))
    assert [y.shape for y in model(rn.zeros((2, 3, 299, 299)))] == [(2, 7), (2, 7)]
    assert model.eval()(x).shape == (1, 7)
    without = models.inception_v3(aux_logits=False, init_weights=False)
    assert without.AuxLogits is None and without(rn.zeros((2, 3, 75, 75))).shape == (2, 1000)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: models.resnet.BasicBlock(8, 8, groups=2), "BasicBlock: takes groups=1"),
    (lambda: models.ResNet(models.resnet.BasicBlock, [1, 1, 1]), "ResNet: takes 4 numbers of layers"),
    (lambda: models.SqueezeNet("2"), "SqueezeNet: version must be '1_0' or '1_1', got '2'"),
    (lambda: models.ShuffleNetV2([1, 1], [8] * 5), "ShuffleNetV2: takes 3 numbers of blocks and 5 of channels"),
    (lambda: models.shufflenetv2.InvertedResidual(8, 16, 1), "at stride 1, inp 8 must be oup 16"),
    (lambda: models.ConvNeXt([]), "ConvNeXt: block_setting must hold at least one stage"),
    (lambda: models.EfficientNet([], 0.1), "EfficientNet: inverted_residual_setting must hold at least one stage"),
    (lambda: models.MobileNetV3([], 8), "MobileNetV3: inverted_residual_setting must hold at least one block"),
    (lambda: models.DenseNet(block_config=()), "DenseNet: block_config must name at least one block"),
    (lambda: models.unet(depth=0), "UNet: depth must be at least 1, got 0"),
])
def test_wrong_settings(make, message):
    with pytest.raises(rn.errors.ArgumentError, match=message):
        make()


def test_unet_needs_sizes_that_can_be_halved():
    with pytest.raises(rn.errors.ShapeError, match=r"UNet: height and width must be multiples of 4, got shape \(1, 3, 8, 6\)"):
        models.unet(width=4, depth=2)(rn.zeros((1, 3, 8, 6)))


def first_values(layer):
    return layer.weight.numpy().std()


def test_first_values_are_those_of_torchvision():
    rn.seed(0)
    resnet = models.resnet18(zero_init_residual=True)
    assert abs(first_values(resnet.conv1) / np.sqrt(2 / (64 * 49)) - 1) < 0.05
    assert not resnet.layer1[0].bn2.weight.numpy().any() and resnet.layer1[0].bn1.weight.numpy().all()
    squeeze = models.squeezenet1_1()
    assert abs(first_values(squeeze.classifier[1]) / 0.01 - 1) < 0.05 and not squeeze.features[0].bias.numpy().any()
    mobile = models.mobilenet_v2(num_classes=50)
    assert abs(first_values(mobile.classifier[1]) / 0.01 - 1) < 0.05
    assert abs(first_values(mobile.features[1].conv[0][0]) / np.sqrt(2 / (32 * 9)) - 1) < 0.2
    convnext = models.convnext.ConvNeXt([models.convnext.CNBlockConfig(32, None, 1)])
    assert abs(first_values(convnext.features[1][0].block[3]) / 0.02 - 1) < 0.05
    dense = models.densenet.DenseNet(block_config=(1,))
    assert abs(first_values(dense.features[0]) / np.sqrt(2 / (3 * 49)) - 1) < 0.05 and not dense.classifier.bias.numpy().any()
    efficient = models.efficientnet_b0(num_classes=100)
    assert 0.099 < np.abs(efficient.classifier[1].weight.numpy()).max() <= 0.1
    vgg = models.VGG(models.vgg.stages((8,), (1,)), channels=8, grid=1, hidden=64)
    assert abs(first_values(vgg.classifier[3]) / 0.01 - 1) < 0.1
    guess = models.inception_v3().AuxLogits
    assert abs(first_values(guess.fc) / 0.001 - 1) < 0.05 and abs(first_values(guess.conv0.conv) / 0.1 - 1) < 0.05
