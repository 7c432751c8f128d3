#!/usr/bin/env python3
"""Writes mixture_golden.h: what scikit-learn's GaussianMixture says of the samples of unit_mixture.c.

The test needs no scikit-learn; this script does (Debian: python3-sklearn; the answers are those of 1.2.1). Samples are made by the same
arithmetic here and in unit_mixture.c: splitmix64, and sums of twelve uniform numbers for normal ones, so they are equal to the bit.

usage: mixture_golden.py >mixture_golden.h
"""
import numpy
import sklearn
from sklearn.mixture import GaussianMixture

MASK = (1 << 64) - 1
TOLERANCE, FLOOR, ITERATIONS = 1e-6, 1e-6, 300


class Random:
    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = self.state + 0x9e3779b97f4a7c15 & MASK
        z = self.state
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & MASK
        z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
        return ((z ^ z >> 31) >> 11) * 2.0**-53

    def normal(self):
        total = 0.0
        for _ in range(12):
            total += self.uniform()
        return total - 6.0


def make_samples(seed, n, parts):
    """parts: (weight, means, lower factor of the covariance)."""
    random, rows = Random(seed), []
    for _ in range(n):
        drawn, k = random.uniform(), 0
        while k < len(parts) - 1 and drawn >= parts[k][0]:
            drawn -= parts[k][0]
            k += 1
        _, means, lower = parts[k]
        normal = [random.normal() for _ in means]
        row = []
        for i, mean in enumerate(means):
            value = mean
            for j in range(i + 1):
                value += lower[i][j] * normal[j]
            row.append(value)
        rows.append(row)
    return numpy.array(rows)


class Started(GaussianMixture):
    """Begins with equal parts of the samples in the order of their first value, as GS_DETECT_START_QUANTILE does."""

    def _initialize_parameters(self, X, random_state):
        n, shares = len(X), numpy.zeros((len(X), self.n_components))
        for rank, i in enumerate(numpy.argsort(X[:, 0], kind="stable")):
            shares[i, rank * self.n_components // n] = 1
        self._initialize(X, shares)


# As in unit_mixture.c: name, seed, n, parts
LATENCIES = ("latencies", 1, 600, [(0.6, [9.5], [[0.15]]), (0.3, [10.5], [[0.25]]), (0.1, [15.0], [[0.5]])])
CROWDED = ("crowded", 2, 500, [(0.5, [8.0], [[0.4]]), (0.5, [8.9], [[0.3]])])
GPU = ("gpu", 3, 400, [(0.7, [0.30, 0.70, 62.0], [[0.02, 0, 0], [0.01, 0.05, 0], [0.5, 1.0, 2.0]]),
                       (0.3, [0.10, 0.20, 40.0], [[0.01, 0, 0], [0.005, 0.02, 0], [0.2, 0.3, 1.0]])])


def numbers(values):
    return ", ".join(repr(float(v)) for v in numpy.ravel(values))


def write_model(data, samples, kind, model, components, start):
    order = range(components) if start == "GS_DETECT_START_QUANTILE" else numpy.argsort(model.means_[:, 0])
    width = samples.shape[1]
    covariances = numpy.zeros((components, width, width))
    for k in range(components):
        covariances[k] = model.covariances_[k] if kind == "full" else numpy.diag(model.covariances_[k])
    order = list(order)
    print("\t{")
    print(f"\t\t.data = {data}, .n_components = {components}, .start = {start},")
    print(f"\t\t.covariance = GS_DETECT_COVARIANCE_{'FULL' if kind == 'full' else 'DIAGONAL'},")
    print(f"\t\t.n_iterations = {model.n_iter_}, .converged = {str(bool(model.converged_)).lower()},")
    print(f"\t\t.mean_likelihood = {float(model.score(samples))!r}, .bic = {float(model.bic(samples))!r},")
    print(f"\t\t.first_density = {float(model.score_samples(samples[:1])[0])!r},")
    print(f"\t\t.weight = {{{numbers(model.weights_[order])}}},")
    print("\t\t.mean = {" + ", ".join("{" + numbers(model.means_[k]) + "}" for k in order) + "},")
    print("\t\t.covariance_of = {" + ", ".join("{" + ", ".join("{" + numbers(row) + "}" for row in covariances[k]) + "}" for k in order) + "},")
    print("\t},")


def main():
    print("/* clang-format off */")
    print(f"/* Written by mixture_golden.py: GaussianMixture of scikit-learn {sklearn.__version__}. */")
    print("static const struct golden goldens[] = {")
    for index, (_, seed, n, parts) in enumerate((LATENCIES, CROWDED, GPU)):
        samples = make_samples(seed, n, parts)
        settings = {"tol": TOLERANCE, "reg_covar": FLOOR, "max_iter": ITERATIONS}
        for kind in ("full",) if samples.shape[1] == 1 else ("full", "diag"):
            for components in range(1, 5):
                model = Started(components, covariance_type=kind, **settings).fit(samples)
                write_model(index, samples, kind, model, components, "GS_DETECT_START_QUANTILE")
            # Its own start, by k-means: the same optimum, by another path.
            model = GaussianMixture(len(parts), covariance_type=kind, n_init=10, random_state=0, **settings).fit(samples)
            write_model(index, samples, kind, model, len(parts), "GS_DETECT_START_KMEANS")
    print("};")


if __name__ == "__main__":
    main()
