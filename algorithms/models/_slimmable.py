"""Residual networks whose layers can also be run narrow, on the first channels of their own weights.

Slimmable layers are Yu et al.'s (2019). A narrow pass is a function of slices of the full weights, so the weights may be views
into a vector, and its gradient lands where they lie. Normalization keeps running statistics for the full width alone; a narrow
pass uses those of its batch (as FedAlign does, Mendieta et al. 2022).
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, pad

FULL = 1.0


def channels_at(width: float, channels: int) -> int:
    """How many of ``channels`` are used at a width in (0, 1]; at least one.

    >>> channels_at(0.25, 64)
    16
    """
    return max(1, int(width * channels))


class Conv(nn.Conv2d):
    """Convolution without bias, padded to keep the image's size at stride 1."""

    init = "kaiming_fan_out"

    def __init__(self, inside: int, outside: int, kernel: int, stride: int = 1) -> None:
        super().__init__(inside, outside, kernel, stride, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """[n, c, h, w] to the first ``width`` of the output channels; c may be fewer than the full number."""
        if width == FULL:
            return super().forward(x)
        weight = self.weight[: channels_at(width, self.out_channels), : x.shape[1]]
        return conv2d(x, weight, None, self.stride, self.padding)


class Norm(nn.BatchNorm2d):
    """Batch normalization; below full width by the batch's own statistics, of which nothing is kept."""

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """[n, c, h, w] to the same shape; c is the number of channels at this ``width``."""
        if width == FULL:
            return super().forward(x)
        channels = x.shape[1]
        return batch_norm(x, None, None, self.weight[:channels], self.bias[:channels], training=True, eps=self.eps)


class Bottleneck(nn.Module):
    """Block of three convolutions, 1x1 down, 3x3, and 1x1 up to four times the planes; projects where the shape changes."""

    expansion = 4

    def __init__(self, inside: int, planes: int, stride: int) -> None:
        super().__init__()
        outside = self.expansion * planes
        self.conv1, self.bn1 = Conv(inside, planes, 1), Norm(planes)
        self.conv2, self.bn2 = Conv(planes, planes, 3, stride), Norm(planes)
        self.conv3, self.bn3 = Conv(planes, outside, 1), Norm(outside)
        self.projects = stride != 1 or inside != outside
        if self.projects:
            self.conv0, self.bn0 = Conv(inside, outside, 1, stride), Norm(outside)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """[n, c, h, w] to [n, 4 planes, h / stride, w / stride]."""
        shortcut = self.bn0(self.conv0(x, width), width) if self.projects else x
        inner = self.relu(self.bn1(self.conv1(x, width), width))
        inner = self.relu(self.bn2(self.conv2(inner, width), width))
        return self.relu(self.bn3(self.conv3(inner, width), width).add_(shortcut))


class Basic(nn.Module):
    """Block of two 3x3 convolutions; where the shape changes, the shortcut drops pixels and adds channels of zeros."""

    expansion = 1

    def __init__(self, inside: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = Conv(inside, planes, 3, stride), Norm(planes)
        self.conv2, self.bn2 = Conv(planes, planes, 3), Norm(planes)
        self.stride = stride
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """[n, c, h, w] to [n, planes, h / stride, w / stride]."""
        inner = self.relu(self.bn1(self.conv1(x, width), width))
        inner = self.bn2(self.conv2(inner, width), width)
        return self.relu(inner.add_(self._shortcut(x, inner.shape[1])))

    def _shortcut(self, x: Tensor, channels: int) -> Tensor:
        missing = channels - x.shape[1]
        if not missing and self.stride == 1:
            return x
        before = missing // 2
        return pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, missing - before))


class Stage(nn.Sequential):
    """Blocks of the same planes, one after another, all at one width; the first has the stride."""

    def __init__(
        self, block: type[Bottleneck] | type[Basic], count: int, inside: int, planes: int, stride: int
    ) -> None:
        outside = block.expansion * planes
        rest = (block(outside, planes, 1) for _ in range(count - 1))
        super().__init__(block(inside, planes, stride), *rest)

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """[n, c, h, w] to [n, expansion * planes, h / stride, w / stride]."""
        for block in self:
            x = block(x, width)
        return x


class ResNet(nn.Module):
    """Residual network with a stem of 16 channels and three stages of 16, 32 and 64 planes (He et al. 2016, section 4.2)."""

    def __init__(self, block: type[Bottleneck] | type[Basic], blocks: int, channels: int, classes: int) -> None:
        super().__init__()
        wide = block.expansion
        self.conv, self.bn, self.relu = Conv(channels, 16, 3), Norm(16), nn.ReLU(inplace=True)
        self.stage1 = Stage(block, blocks, 16, 16, 1)
        self.stage2 = Stage(block, blocks, wide * 16, 32, 2)
        self.stage3 = Stage(block, blocks, wide * 32, 64, 2)
        self.linear = nn.Linear(wide * 64, classes)

    def forward(self, x: Tensor, features: bool = False, narrow: float | None = None) -> Tensor | tuple[Tensor, ...]:
        """Logits [n, classes] of images [n, channels, height, width].

        With ``features``: the feature maps behind stages 2 and 3, and the logits. With ``narrow``, a width below 1: ``x`` is
        what stage 2 gave, and the answer is its first channels and what stage 3 makes of them, both at this width.
        """
        if narrow is not None:
            first = x[:, : channels_at(narrow, x.shape[1])]
            return first, self.stage3(first, narrow)
        x2 = self.stage2(self.stage1(self.relu(self.bn(self.conv(x)))))
        x3 = self.stage3(x2)
        logits = self.linear(x3.mean(dim=(2, 3)))
        return (x2, x3, logits) if features else logits
