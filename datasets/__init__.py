"""The data of a federation: published data sets, the ways to deal them to clients, the transforms that make groups.

Reading order: `federation` (what every other module speaks of), `build` (load, check, deal: `build_federation`), then

* ``sources/``: one file for each data set, the components of the slot ``data``;
* ``splits/``: one file for each way of dealing, the components of the slot ``data.split``;
* `ungrouped`: a federation whose clients are not in groups; `stratified`: shares that keep the classes;
* `roles`: which example serves which purpose, so that none serves two;
* `transforms`: rotation and brightness; `files`: finding, checking and fetching what is published.

Everything here is NumPy. No process is started and nothing is written, except by a data set that downloads itself.
"""

from datasets.build import build_federation

__all__ = ["build_federation"]
