"""`sentinelctl demo`: the whole loop on this machine, on real input, with figures that were measured."""
