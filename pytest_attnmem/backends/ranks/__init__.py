"""One rank of a world whose other ranks do not run, on a device that moves nothing."""
