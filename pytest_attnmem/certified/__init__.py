"""The releases of PyTorch that ``attnmem certify`` compared with the rules, one file each."""
