"""The memory of the device: storages in, bytes out. No operator is named here."""
