"""What every other part of the mathematics stands on: vectors of parameters, messages, networks, noise, accounts."""
