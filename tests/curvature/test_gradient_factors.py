import pytest
import torch

from isoloss.curvature.per_sentence.factors import Lookups, OuterProducts, Sums, squared_norms


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def dense(factors, n, shape):
    """The sentences' gradients themselves."""
    gradients = torch.zeros(n, *shape, dtype=torch.float64)
    for factor in factors:
        for i in range(n):
            if isinstance(factor, Sums):
                gradients[i] += factor.values[i]
            elif isinstance(factor, OuterProducts):
                gradients[i] += torch.einsum("sa,sb->ab", factor.left[i], factor.right[i])
            else:
                for s, word in enumerate(factor.ids[i].tolist()):
                    gradients[i, word] += factor.right[i, s]
    return gradients.flatten(1).square().sum(1)


def products(places, rows, columns):
    return OuterProducts(drawn(3, places, rows), drawn(3, places, columns))


def lookups(places, rows, columns):
    ids = torch.randint(rows, (3, places), generator=torch.Generator().manual_seed(places))
    return Lookups(ids, drawn(3, places, columns))


ROWS, COLUMNS = 6, 5
CASES = {
    "by a matrix of products": [products(4, ROWS, COLUMNS)],
    "by the products": [products(2, ROWS, COLUMNS)],
    "of two layers": [products(1, ROWS, COLUMNS), products(1, ROWS, COLUMNS)],
    "of two layers, by the products": [products(2, ROWS, COLUMNS), products(3, ROWS, COLUMNS)],
    "lookups": [lookups(7, ROWS, COLUMNS)],
    "two lookups": [lookups(7, ROWS, COLUMNS), lookups(3, ROWS, COLUMNS)],
    "tied": [products(2, ROWS, COLUMNS), lookups(7, ROWS, COLUMNS)],
    "tied, by the products": [lookups(7, ROWS, COLUMNS), products(5, ROWS, COLUMNS)],
    "tied, several": [
        lookups(3, ROWS, COLUMNS),
        lookups(1, ROWS, COLUMNS),
        products(1, ROWS, COLUMNS),
        products(1, ROWS, COLUMNS),
    ],
}


@pytest.mark.parametrize("memory_bytes", [1, 600, 1 << 20])
@pytest.mark.parametrize("case", CASES)
def test_norms_of_matrices(case, memory_bytes):
    factors = CASES[case]
    found = squared_norms(factors, (ROWS, COLUMNS), memory_bytes)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, dense(factors, 3, (ROWS, COLUMNS)), rtol=1e-12, atol=0)


def test_norms_of_vectors():
    factors = [Sums(drawn(3, 4)), Sums(drawn(3, 4) ** 2)]
    torch.testing.assert_close(squared_norms(factors, (4,), 1), dense(factors, 3, (4,)), rtol=1e-12, atol=0)


def test_half_precision_is_multiplied_in_single():
    """Three hundred ones are more than half precision can count."""
    ones = torch.ones(1, 300, 20, dtype=torch.bfloat16)
    assert squared_norms([OuterProducts(ones, ones)], (20, 20), 1 << 20).tolist() == [300.0**2 * 400]
    words = Lookups(torch.zeros(1, 300, dtype=torch.int64), ones)
    assert squared_norms([words], (20, 20), 1 << 20).tolist() == [300.0**2 * 20]


@pytest.mark.parametrize("memory_bytes", [1, 1 << 20])
@pytest.mark.parametrize("places", [1, 5])
def test_a_known_mean_takes_the_place_of_the_products_own_norm(places, memory_bytes):
    """Whether computed by products or by matrix; with words looked up, these and the cross term remain."""
    own, words = products(places, ROWS, COLUMNS), lookups(7, ROWS, COLUMNS)
    mean = torch.tensor([1.0, 2.0, 30.0], dtype=torch.float64)
    known = OuterProducts(own.left, own.right, mean)
    shape = (ROWS, COLUMNS)
    assert torch.equal(squared_norms([known], shape, memory_bytes), mean)
    found = squared_norms([words, known], shape, memory_bytes)
    expected = dense([own, words], 3, shape) - dense([own], 3, shape) + mean
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(squared_norms([Sums(drawn(3, 4), mean)], (4,), memory_bytes), mean)
