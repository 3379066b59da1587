"""Alzheimer MRI, 6 400 gray brain slices of 128x128 in 4 classes (Salieh 2023).

The classes, in this order, are mild demented, moderate demented, non demented and very mild
demented.

Recipe of Sainz-Pardo Diaz et al. 2025: the 5 120 training images go to 4 clients (3 in the attack's
scenario), each of which holds out a fifth. Of the 1 280 test images, one half is the server's own,
on which it may pre-train, and the other half is the server's test set. Pixels are divided by 255,
as in the samples of the authors' platform; the paper does not say.

The data set does not say which patient a slice comes from. If, as is widely reported, several
slices show one patient, then training and test images share patients, and the accuracy measured
here says little about a new patient.

Two files of the Hugging Face set Falah/Alzheimer_MRI lie in ROOT/alzheimer_mri/data:
train-00000-of-00001.parquet and test-00000-of-00001.parquet (the publisher's names have "-" and a
hash before the suffix). Their columns are ``image``, the struct {bytes, path} of an encoded image,
and ``label``, integers 0..3 in the order above.
"""

import importlib
from pathlib import Path

from pydantic import Field

from datasets import files
from datasets.federation import DataError, Source
from datasets.source_configs import HeldOutConfig

LABEL = "Alzheimer MRI"
CLASSES = 4
SIDE = 128
PARTS = ("train-00000-of-00001", "test-00000-of-00001")
REPOSITORY = "Falah/Alzheimer_MRI"
REMEDY = (
    f"Put the two parquet files of the folder data of huggingface.co/datasets/{REPOSITORY} "
    "there, or run once where a network exists and huggingface_hub is installed (pip install "
    "huggingface_hub)"
)


class Config(HeldOutConfig):
    """The defaults are the paper's; the class counts of its clients are those of the split
    class_counts.
    """

    clients: int = Field(4, ge=1, description="number of clients")
    # The paper's clients are one fixed draw, whatever the seed of a run; 42 is our choice.
    split_seed: int | None = Field(
        42, ge=0, description="seed of the partition; null: the run's seed"
    )
    held_out: float = Field(
        0.2, gt=0, lt=1, description="share of a client's examples that it never trains on"
    )
    shadow_size: int | None = Field(
        640, ge=0, description="test examples that the server keeps for itself; null: all of them"
    )
    # The data set has not changed since 2023 as far as we know; the 40 digits of a commit pin it
    # for later runs.
    revision: str = Field(
        "main",
        pattern=r"^[\w.-]+(/[\w.-]+)*$",
        description=(
            "branch, tag or commit that is downloaded from the hub; existing files are used as "
            "they are"
        ),
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the images, uint8 [n, 1, 128, 128]; huggingface_hub downloads them if they are absent.

    Raises DataError if a file is absent and cannot be downloaded, its content is wrong, or two
    files claim to be one.
    """
    folder = root / "alzheimer_mri" / "data"
    missing = [part for part in PARTS if not [*folder.glob(f"{part}*.parquet")]]
    if missing:
        sought = f"{' and '.join(f'{part}.parquet' for part in missing)} in {folder}"
        place = {"local_dir": folder.parent, "allow_patterns": "data/*.parquet"}

        def fetch() -> None:
            hub = importlib.import_module("huggingface_hub")
            hub.snapshot_download(
                REPOSITORY, repo_type="dataset", revision=config.revision, **place
            )

        files.download("Alzheimer MRI", fetch, sought, REMEDY, download)
    paths = [
        sorted(folder.glob(f"{part}*.parquet")) or [folder / f"{part}.parquet"] for part in PARTS
    ]
    several = [files_of for files_of in paths if len(files_of) > 1]
    if several:
        names = " and ".join(path.name for path in several[0])
        raise DataError(f"{folder} has {names}, and only one can be the data set. Delete the other")
    train, test = (files.encoded_images(path, SIDE, CLASSES) for (path,) in paths)
    return Source("alzheimer", CLASSES, train, test)
