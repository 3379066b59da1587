"""Residual networks whose layers can also run at a smaller width, on the first channels of their
own weights.

Slimmable layers are by Yu et al. (2019). A narrow pass uses slices of the full weights, so the
weights may be views into a vector, and gradients accumulate in place. Normalization keeps running
statistics for the full width only; a narrow pass uses the statistics of its batch (as FedAlign
does, Mendieta et al. 2022).
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, pad

FULL = 1.0


def channels_at(width: float, channels: int) -> int:
    """Compute how many of ``channels`` are used at a width in (0, 1]; at least one.

    >>> channels_at(0.25, 64)
    16
    """
    return max(1, int(width * channels))


class Conv(nn.Conv2d):
    """A convolution without bias, padded to keep the image's size at stride 1."""

    init = "kaiming_fan_out"

    def __init__(
        self,
        inside: int,
        outside: int,
        kernel: int,
        stride: int = 1,
    ) -> None:
        super().__init__(
            inside,
            outside,
            kernel,
            stride,
            padding=kernel // 2,
            bias=False,
        )

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """Map [n, c, h, w] to the first ``width`` of the output channels; c may be below the
        full number of input channels.
        """
        if width == FULL:
            return super().forward(x)
        outside = channels_at(width, self.out_channels)
        weight = self.weight[:outside, : x.shape[1]]
        return conv2d(x, weight, None, self.stride, self.padding)


class Norm(nn.BatchNorm2d):
    """Batch normalization that, below full width, uses the batch's own statistics and stores
    none of them.
    """

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """Normalize [n, c, h, w], where c is the number of channels at this ``width``; the shape
        stays the same.
        """
        if width == FULL:
            return super().forward(x)
        channels = x.shape[1]
        return batch_norm(
            x,
            None,
            None,
            self.weight[:channels],
            self.bias[:channels],
            training=True,
            eps=self.eps,
        )


class Bottleneck(nn.Module):
    """A residual block of three convolutions: 1x1 to fewer channels, 3x3, and 1x1 to four times
    the planes.

    Where the shape changes, a convolution projects the shortcut.
    """

    expansion = 4

    def __init__(self, inside: int, planes: int, stride: int) -> None:
        super().__init__()
        outside = self.expansion * planes
        self.conv1 = Conv(inside, planes, 1)
        self.bn1 = Norm(planes)
        self.conv2 = Conv(planes, planes, 3, stride)
        self.bn2 = Norm(planes)
        self.conv3 = Conv(planes, outside, 1)
        self.bn3 = Norm(outside)
        self.projects = stride != 1 or inside != outside
        if self.projects:
            self.conv0 = Conv(inside, outside, 1, stride)
            self.bn0 = Norm(outside)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """Map [n, c, h, w] to [n, 4 planes, h / stride, w / stride]."""
        shortcut = x
        if self.projects:
            shortcut = self.bn0(self.conv0(x, width), width)
        inner = self.bn1(self.conv1(x, width), width)
        inner = self.bn2(self.conv2(self.relu(inner), width), width)
        inner = self.bn3(self.conv3(self.relu(inner), width), width)
        return self.relu(inner.add_(shortcut))


class Basic(nn.Module):
    """A residual block of two 3x3 convolutions; where the shape changes, the shortcut drops
    pixels and adds zero channels.
    """

    expansion = 1

    def __init__(self, inside: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Conv(inside, planes, 3, stride)
        self.bn1 = Norm(planes)
        self.conv2 = Conv(planes, planes, 3)
        self.bn2 = Norm(planes)
        self.stride = stride
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """Map [n, c, h, w] to [n, planes, h / stride, w / stride]."""
        inner = self.bn1(self.conv1(x, width), width)
        inner = self.bn2(self.conv2(self.relu(inner), width), width)
        shortcut = self._shortcut(x, inner.shape[1])
        return self.relu(inner.add_(shortcut))

    def _shortcut(self, x: Tensor, channels: int) -> Tensor:
        missing = channels - x.shape[1]
        if not missing and self.stride == 1:
            return x
        before = missing // 2
        fewer = x[:, :, :: self.stride, :: self.stride]
        return pad(fewer, (0, 0, 0, 0, before, missing - before))


class Stage(nn.Sequential):
    """A sequence of blocks with the same planes, all run at one width; the first block has the
    stride.
    """

    def __init__(
        self,
        block: type[Bottleneck] | type[Basic],
        count: int,
        inside: int,
        planes: int,
        stride: int,
    ) -> None:
        outside = block.expansion * planes
        blocks = [block(inside, planes, stride)]
        for _ in range(count - 1):
            blocks.append(block(outside, planes, 1))
        super().__init__(*blocks)

    def forward(self, x: Tensor, width: float = FULL) -> Tensor:
        """Map [n, c, h, w] to [n, expansion * planes, h / stride, w / stride]."""
        for block in self:
            x = block(x, width)
        return x


class ResNet(nn.Module):
    """A residual network with a stem of 16 channels and stages of 16, 32 and 64 planes (He et
    al. 2016, section 4.2).
    """

    def __init__(
        self,
        block: type[Bottleneck] | type[Basic],
        blocks: int,
        channels: int,
        classes: int,
    ) -> None:
        super().__init__()
        wide = block.expansion
        self.conv = Conv(channels, 16, 3)
        self.bn = Norm(16)
        self.relu = nn.ReLU(inplace=True)
        self.stage1 = Stage(block, blocks, 16, 16, 1)
        self.stage2 = Stage(block, blocks, wide * 16, 32, 2)
        self.stage3 = Stage(block, blocks, wide * 32, 64, 2)
        self.linear = nn.Linear(wide * 64, classes)

    def forward(
        self, x: Tensor, features: bool = False, narrow: float | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        """Compute logits [n, classes] of images [n, channels, height, width], or run only the
        last stage at a smaller width.

        With ``features``, return the outputs of stages 2 and 3, and the logits. With a width
        ``narrow`` below 1, return the first channels of ``x``, an output of stage 2, and the output
        of stage 3 on them, both at this width.
        """
        if narrow is not None:
            first = x[:, : channels_at(narrow, x.shape[1])]
            return first, self.stage3(first, narrow)
        stem = self.relu(self.bn(self.conv(x)))
        x2 = self.stage2(self.stage1(stem))
        x3 = self.stage3(x2)
        logits = self.linear(x3.mean(dim=(2, 3)))
        return (x2, x3, logits) if features else logits
