"""What compiled functions keep of tensors that they only read is never older than the tensors."""

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv2, self.bn2 = nn.Conv2d(32, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)

    def forward(self, x):
        return self.bn2(self.conv2(nn.functional.relu(self.bn1(self.conv1(x)))))


class Trial:
    """A network in evaluation, compiled and not."""

    def __init__(self):
        rn.seed(0)
        self.net = Net().eval()
        self.x = rn.tensor(np.random.default_rng(0).standard_normal((4, 16, 12, 12), np.float32))
        self.compiled = rn.compile(lambda x: self.net(x))
        self.last = None
        for _ in range(3):
            self.check(changed=self.last is None)
        assert self.entry()._steady is not None
        self.early_runs = self.runs()

    def entry(self):
        return self.compiled._last[2]

    def runs(self):
        return self.entry()._steady._program.executable.runs.value

    def check(self, *, changed):
        with rn.no_grad():
            got, want = self.compiled(self.x).numpy(), self.net(self.x).numpy()
        assert got.tobytes() == want.tobytes()
        assert self.last is None or (got.tobytes() != self.last) == changed
        self.last = got.tobytes()


def copied(t):
    t.net.conv1.weight.copy_(t.net.conv1.weight * 2)


def trained(t):
    optimizer = optim.SGD(t.net.parameters(), lr=0.1)

    @rn.compile
    def step(x):
        loss = (t.net(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step(t.x)
        t.check(changed=True)
    t.net.conv1.weight.copy_(t.net.conv1.weight * 2)


def uncompiled_training(t):
    optimizer = optim.SGD(t.net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        loss = (t.net(t.x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        t.check(changed=True)
    t.net.conv1.weight.copy_(t.net.conv1.weight * 2)


def loaded(t):
    t.net.load_state_dict({k: v * 1.5 for k, v in t.net.state_dict().items()})


def replaced(t):
    t.net.conv1.weight = nn.Parameter(t.net.conv1.weight.detach() * 3)


def statistics(t):
    t.net.train()
    t.net(t.x)
    t.net.eval()


def overwritten_as_an_argument(t):
    @rn.compile
    def halve(w):
        w.copy_(w * 0.5)

    for _ in range(3):
        halve(t.net.conv1.weight)
        t.check(changed=True)
    t.net.conv1.weight.copy_(t.net.conv1.weight * 2)


CHANGES = [copied, trained, uncompiled_training, loaded, replaced, statistics, overwritten_as_an_argument]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_a_change_is_seen(change):
    t = Trial()
    change(t)
    t.check(changed=True)
    t.check(changed=False)


def test_nothing_is_made_again_while_nothing_changes():
    t = Trial()
    for _ in range(5):
        t.check(changed=False)
    assert t.runs() == t.early_runs


def test_bytes_that_others_see_are_read_every_time():
    weight = np.random.default_rng(1).standard_normal((16, 16, 3, 3)).astype(np.float32)
    seen = rn.from_numpy(weight)
    f = rn.compile(lambda x: nn.functional.conv2d(x, seen, None, 1, 1))
    x = rn.tensor(np.random.default_rng(0).standard_normal((4, 16, 12, 12), np.float32))
    for _ in range(3):
        f(x)
    weight *= 2
    assert f(x).numpy().tobytes() == nn.functional.conv2d(x, seen, None, 1, 1).numpy().tobytes()


def test_a_view_that_came_later_is_heeded():
    t = Trial()
    view = t.net.bn1.running_mean.numpy()
    for _ in range(2):
        t.check(changed=False)
    assert t.runs() == t.early_runs + 2
    del view
    for _ in range(2):
        t.check(changed=False)
    assert t.runs() == t.early_runs + 3
