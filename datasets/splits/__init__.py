"""The slot ``data.split``: one module for each way of dealing a data set to clients, found by its file name.

A component has ``Config`` and

* ``problems(config, data_config) -> list[str]`` (may be left out): what is wrong with the configuration by itself;
* ``shortages(config, data_config, source) -> list[str]``: that, and whatever the data set cannot give;
* ``deal(config, data_config, source, rng_for) -> Federation``, which may rely on there being no shortage.

Neither of the first two raises: each sentence opens with the dotted key that it is about, as in "data.clients: ...".
"""
