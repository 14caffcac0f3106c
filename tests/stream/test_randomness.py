"""Every random number is the Philox4x64-10 word that belongs to a seed, a stream and an id."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from batch2online import sampling
from batch2online.sampling import SAMPLING, TOLERANCE, seed_from, uniforms, word_below, words, words_of

LARGEST_WORD = 2**64 - 1
PUBLISHED = [  # the known answers that come with Random123: counter, key, words
    ((0,) * 4, (0,) * 2, (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B)),
    (
        (LARGEST_WORD,) * 4,
        (LARGEST_WORD,) * 2,
        (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
    ),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
    ),
]
SEEDS = (0, 7, 2**63, LARGEST_WORD)
STARTS = (0, 1, 2, 3, 4, 999, 2**32 - 3, 2**53 - 1, 2**63 - 42)


def philox(counter, key):
    """The generator in plain integers."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * x0, 0xCA5A826395121157 * x2
        x0, x1, x2, x3 = (b >> 64) ^ x1 ^ k0, b & LARGEST_WORD, (a >> 64) ^ x3 ^ k1, a & LARGEST_WORD
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & LARGEST_WORD, (k1 + 0xBB67AE8584CAA73B) & LARGEST_WORD
    return x0, x1, x2, x3


def word(seed, stream, i):
    return philox((i // 4 + 1, 0, 0, 0), (seed, stream))[i % 4]


@pytest.mark.parametrize(("counter", "key", "expected"), PUBLISHED)
def test_numpy_and_the_plain_integers_give_the_published_words(counter, key, expected):
    before = (sum(part << 64 * k for k, part in enumerate(counter)) - 1) % 2**256
    raw = np.random.Philox(counter=before, key=key[0] + (key[1] << 64)).random_raw(4)
    assert tuple(raw.tolist()) == philox(counter, key) == expected


@pytest.mark.parametrize("stream", [SAMPLING, TOLERANCE])
@pytest.mark.parametrize("seed", SEEDS)
def test_consecutive_and_arbitrary_ids_own_the_same_words(seed, stream):
    for start in STARTS:
        ids = range(start, start + 40)
        expected = np.array([word(seed, stream, i) for i in ids], dtype=np.uint64)
        assert np.array_equal(words(seed, stream, ids), expected)
        order = np.random.default_rng(start % 2**32).permutation(40)
        assert np.array_equal(words(seed, stream, np.array(ids)[order]), expected[order])


@pytest.mark.parametrize("start", STARTS)
def test_words_are_those_of_numpys_generator(start):
    seed, stream, n = 12345, SAMPLING, 40
    ids = np.arange(start, start + n)
    raw = np.random.Philox(counter=start // 4, key=seed + (stream << 64)).random_raw(n + 3)
    assert np.array_equal(words_of(seed, stream, ids), raw[start % 4 : start % 4 + n])


@pytest.mark.parametrize(
    ("seed", "stream", "i", "expected"),
    [
        (0, 0, 0, 0x02F4BA6408E4D89B),
        (7, 0, 0, 0xDF4034B829E9FBA4),
        (7, 1, 4, 0xB7DA48AF1EFF8048),
        (12345, 0, 10**12 + 1, 0x1F360136F5A6BDA9),
        (LARGEST_WORD, 1, 2**63 - 2, 0x95B5D9B824D40E15),
    ],
)
def test_words_stay_the_same_between_versions(seed, stream, i, expected):
    assert words(seed, stream, range(i, i + 1)).tolist() == [expected]
    assert words(seed, stream, np.array([i])).tolist() == [expected]


@pytest.mark.parametrize("ids", [range(3, 3), np.empty(0, dtype=np.int64)])
def test_no_ids_own_no_words(ids):
    assert words(1, SAMPLING, ids).shape == (0,)


def test_threads_that_draw_at_once_get_what_one_alone_gets():
    tasks = [(seed, stream, range(start, start + 2000)) for seed in range(40) for stream in (0, 1) for start in (0, 5)]
    alone = [words(*task) for task in tasks]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda task: words(*task), tasks * 5))
    assert all(map(np.array_equal, together, alone * 5))


@pytest.mark.parametrize("extreme", [0, LARGEST_WORD])
def test_uniforms_are_strictly_inside_the_unit_interval(extreme, monkeypatch):
    word = np.array([extreme], dtype=np.uint64)
    monkeypatch.setattr(sampling, "words", lambda *_: word)
    for u in (uniforms(0, 0, range(1)), sampling.inclusion_uniforms(word), sampling.rounding_uniforms(word)):
        assert 0 < u[0] < 1


@pytest.mark.parametrize("q", [0.0, 1e-300, 2.0**-45, 1e-6, 0.3, 1 - 2.0**-45, 1.0])
def test_no_word_above_the_bound_has_an_inclusion_uniform_within_q(q):
    bound = int(word_below(q))
    above = [w for w in (bound + 1, bound + 2**20, bound + 2**40) if w <= LARGEST_WORD]
    assert (sampling.inclusion_uniforms(np.array(above, dtype=np.uint64)) > q).all()
    assert bound <= q * 2.0**64 + 2**21


@pytest.mark.parametrize("seed", [0, 7, LARGEST_WORD, np.int64(7), np.uint64(LARGEST_WORD)])
def test_an_integer_is_its_own_seed(seed):
    result = seed_from(seed)
    assert type(result) is int
    assert result == int(seed)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_generator_gives_reproducible_seeds_and_moves_on(make):
    generator, twin = make(3), make(3)
    first, second = seed_from(generator), seed_from(generator)
    assert (first, second) == (seed_from(twin), seed_from(twin))
    assert first != second
    assert 0 <= first < 2**64


def test_no_seed_is_a_new_one_each_time():
    assert len({seed_from(None) for _ in range(10)}) == 10


@pytest.mark.parametrize("bad", [-1, 2**64, True, 1.5, "7", np.array([1])])
def test_what_is_no_seed_is_refused(bad):
    with pytest.raises(ValueError, match="random_state must be"):
        seed_from(bad)
