"""The data of a federation: published data sets, ways to partition them among clients, and transforms that make groups.

Reading order: `federation` (the data structures that every other module uses), `build` (load, check, partition:
`build_federation`), then

* ``sources/``: one file for each data set, the components of the slot ``data``;
* ``splits/``: one file for each way to partition, the components of the slot ``data.split``;
* `stratified`: makes a test set with the same mixture of classes as the training set;
* `roles`: assigns each example to exactly one purpose, and builds the federation;
* `transforms`: rotation and brightness;
* `files`: finds, checks and downloads published files;
* `profile`: looks at own files and chooses the fields of their source.

Everything here is NumPy. Importing the package starts no process and writes nothing; only a data set that downloads
itself writes files.
"""

from datasets.build import build_federation

__all__ = ["build_federation"]
