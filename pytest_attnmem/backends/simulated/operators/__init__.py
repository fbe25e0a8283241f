"""What reaches the device below autograd: one function runs all operators, a few their own."""
