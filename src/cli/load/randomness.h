// Random numbers that are the same everywhere for the same seed: the standard library fixes its
// generators, but not its distributions.
#pragma once

#include <cstdint>
#include <random>

namespace penstock {

using Random = std::mt19937_64;

// A generator of its own for each use: request 7's lengths do not depend on who drew before.
Random random_for(uint64_t seed, uint64_t a, uint64_t b = 0);

double uniform_draw(Random& random);                   // [0, 1)
int64_t integer_draw(Random& random, int64_t n);       // [0, n), n > 0
double normal_draw(Random& random);                    // mean 0, standard deviation 1
double exponential_draw(Random& random, double rate);  // mean 1 / rate: gaps of Poisson arrivals

}  // namespace penstock
