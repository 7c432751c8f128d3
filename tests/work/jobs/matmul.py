"""Multiplies matrices for ever; how many threads does it, the environment says."""

import numpy

a = numpy.random.rand(600, 600)
while True:
    a @ a
