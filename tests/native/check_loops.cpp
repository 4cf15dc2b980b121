// The kernels beside plain loops, without Python: every type, many ranks, every instruction set of
// the machine. Built and run by tools/test_compilers.py, also for other processors.
#include <cmath>
#include <complex>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "../../native/dispatch.hpp"
#include "../../native/modes.hpp"
#include "../../native/panels.hpp"
#include "../../native/tucker.hpp"

namespace tensormend {
namespace {

using Number = std::complex<double>;
constexpr int64_t sizes[] = {4, 6, 40};
constexpr double roundings = 500;  // sums of some hundred terms of either sign

int64_t n_checked = 0, n_wrong = 0;

Number widened(double value) {
    return value;
}
Number widened(float value) {
    return value;
}
template <class Real>
Number widened(Complex<Real> value) {
    return {value.re, value.im};
}

void narrow(Number value, double& to) {
    to = value.real();
}
void narrow(Number value, float& to) {
    to = float(value.real());
}
template <class Real>
void narrow(Number value, Complex<Real>& to) {
    to = {Real(value.real()), Real(value.imag())};
}

template <class T>
void compare(const char* what, int64_t rank, const std::vector<T>& found,
             const std::vector<Number>& expected) {
    double scale = 1, error = 0;
    for (const Number value : expected) scale = std::max(scale, std::abs(value));
    for (size_t i = 0; i < found.size(); ++i)
        error = std::max(error, std::abs(widened(found[i]) - expected[i]));
    ++n_checked;
    if (error <=
        roundings * double(std::numeric_limits<typename RealOf<T>::type>::epsilon()) * scale)
        return;
    ++n_wrong;
    std::printf("%s, %zu bytes, rank %d: off by %g of %g\n", what, sizeof(T), int(rank), error,
                scale);
}

// Some entries of a 4 x 6 x 40 tensor, with a Tucker tensor of one rank and a way it moves.
template <class T>
struct Case {
    int64_t rank;
    std::vector<uint32_t> nodes[2], leaves;
    std::vector<uint16_t> short_leaves;
    std::vector<int64_t> starts[2];
    std::vector<int64_t> columns;
    std::vector<T> y, core, factors[3], step_core, step_factors[3];

    // With few entries rows are not filled up; with many, to whole vectors of any length.
    Case(int64_t given, int density) : rank(given) {
        std::mt19937_64 random(1);
        const uint64_t bound = std::vector<uint64_t>{60, 5, 20}[size_t(density)];
        for (uint32_t i = 0; i < sizes[0]; ++i) {
            const size_t first_fibre = nodes[1].size();
            for (uint32_t j = 0; j < sizes[1]; ++j) {
                const size_t begin = leaves.size();
                for (uint32_t k = 0; k < sizes[2]; ++k)
                    if (random() % bound < (density == 2 ? 15 : 0) + 1 + j % 4) leaves.push_back(k);
                if (leaves.size() == begin) continue;
                nodes[1].push_back(j);
                starts[1].push_back(int64_t(begin));
                columns.push_back(i * sizes[1] + j);
            }
            if (nodes[1].size() == first_fibre) continue;
            nodes[0].push_back(i);
            starts[0].push_back(int64_t(first_fibre));
        }
        starts[0].push_back(int64_t(nodes[1].size()));
        starts[1].push_back(int64_t(leaves.size()));
        short_leaves.assign(leaves.begin(), leaves.end());
        const auto draw = [&](int64_t size) {
            std::normal_distribution<double> normal(0, 1 / std::sqrt(double(rank)));
            std::vector<T> values(static_cast<size_t>(size));
            for (T& value : values) narrow({normal(random), normal(random)}, value);
            return values;
        };
        y = draw(int64_t(leaves.size()));
        core = draw(rank * rank * rank);
        step_core = draw(rank * rank * rank);
        for (int m = 0; m < 3; ++m) {
            factors[m] = draw(sizes[m] * rank);
            step_factors[m] = draw(sizes[m] * rank);
        }
    }

    Tree tree() const {
        Tree out;
        for (int l = 0; l < 2; ++l)
            out.levels.push_back({nodes[l].data(), starts[l].data(), int64_t(nodes[l].size())});
        if (rank % 2)
            out.leaves.whole = leaves.data();
        else
            out.leaves.half = short_leaves.data();
        return out;
    }

    static TuckerTensor<T> tensor(const std::vector<T>& core, const std::vector<T>* factors,
                                  int64_t rank) {
        TuckerTensor<T> out{core.data(), {}};
        for (int m = 0; m < 3; ++m) out.factors.push_back({factors[m].data(), sizes[m], rank});
        return out;
    }

    // body(entry, fibre, i, j, k)
    template <class Body>
    void for_entries(const Body& body) const {
        for (size_t i = 0; i < nodes[0].size(); ++i)
            for (int64_t f = starts[0][i]; f < starts[0][i + 1]; ++f)
                for (int64_t e = starts[1][size_t(f)]; e < starts[1][size_t(f) + 1]; ++e)
                    body(size_t(e), size_t(f), nodes[0][i], nodes[1][size_t(f)], leaves[size_t(e)]);
    }

    // Values of the tensor with this core and these factors at the entries.
    std::vector<Number> values(const std::vector<T>& g, const std::vector<T>& u,
                               const std::vector<T>& v, const std::vector<T>& w) const {
        std::vector<Number> out(y.size()), row(static_cast<size_t>(rank));
        size_t last = size_t(-1);
        for_entries([&](size_t e, size_t f, uint32_t i, uint32_t j, uint32_t k) {
            if (f != last) {
                row.assign(size_t(rank), 0);
                for (int64_t a = 0; a < rank; ++a)
                    for (int64_t b = 0; b < rank; ++b)
                        for (int64_t c = 0; c < rank; ++c)
                            row[size_t(c)] += widened(u[size_t(i * rank + a)]) *
                                              widened(v[size_t(j * rank + b)]) *
                                              widened(g[size_t((a * rank + b) * rank + c)]);
                last = f;
            }
            for (int64_t c = 0; c < rank; ++c)
                out[e] += row[size_t(c)] * widened(w[size_t(k * rank + c)]);
        });
        return out;
    }

    std::vector<Number> values() const { return values(core, factors[0], factors[1], factors[2]); }

    std::vector<Number> tangent() const {
        std::vector<Number> out = values(step_core, factors[0], factors[1], factors[2]);
        for (int m = 0; m < 3; ++m) {
            const auto part = [&](int k) -> const std::vector<T>& {
                return k == m ? step_factors[k] : factors[k];
            };
            const auto more = values(core, part(0), part(1), part(2));
            for (size_t e = 0; e < out.size(); ++e) out[e] += more[e];
        }
        return out;
    }

    // The adjoint of the derivative of `values` in the core and the factors, applied to g.
    void check_gradient(const char* what, const std::vector<Number>& g, const Job<T>& job) const {
        std::vector<T> found_core(core.size()), found[3];
        Sums<T> sums;
        sums.core = found_core.data();
        for (int m = 0; m < 3; ++m) {
            found[m].resize(factors[m].size());
            sums.factors.push_back(found[m].data());
        }
        const double square = tucker_gradient(job, sums, 2);
        double expected_square = 0;
        for (const Number value : g) expected_square += std::norm(value);
        using Real = typename RealOf<T>::type;
        compare<Real>(what, rank, {Real(square / expected_square)}, {1});

        std::vector<Number> want(found[2].size()), want_core(core.size()), want_0(found[0].size()),
            want_1(found[1].size());
        const size_t r = size_t(rank);
        // per fibre the sum of g conj(w), from which all but the leaf factor's part follows
        std::vector<Number> gathered(columns.size() * r), rows(columns.size() * r);
        for_entries([&](size_t e, size_t f, uint32_t, uint32_t, uint32_t k) {
            for (size_t c = 0; c < r; ++c)
                gathered[f * r + c] += g[e] * std::conj(widened(factors[2][k * r + c]));
        });
        for (size_t node = 0; node < nodes[0].size(); ++node) {
            const size_t i = nodes[0][node];
            for (int64_t f = starts[0][node]; f < starts[0][node + 1]; ++f) {
                const size_t j = nodes[1][size_t(f)];
                for (size_t a = 0; a < r; ++a) {
                    for (size_t b = 0; b < r; ++b) {
                        const Number u = widened(factors[0][i * r + a]);
                        const Number v = widened(factors[1][j * r + b]);
                        for (size_t c = 0; c < r; ++c) {
                            const Number s = gathered[size_t(f) * r + c];
                            const Number block = widened(core[(a * r + b) * r + c]);
                            rows[size_t(f) * r + c] += u * v * block;
                            want_core[(a * r + b) * r + c] += std::conj(u * v) * s;
                            want_0[i * r + a] += std::conj(v * block) * s;
                            want_1[j * r + b] += std::conj(u * block) * s;
                        }
                    }
                }
            }
        }
        for_entries([&](size_t e, size_t f, uint32_t, uint32_t, uint32_t k) {
            for (size_t c = 0; c < r; ++c) want[k * r + c] += g[e] * std::conj(rows[f * r + c]);
        });
        compare(what, rank, found_core, want_core);
        compare(what, rank, found[0], want_0);
        compare(what, rank, found[1], want_1);
        compare(what, rank, found[2], want);
    }

    void check_tucker() const {
        const auto x = values();
        Job<T> job{Task::values, tree(), tensor(core, factors, rank)};
        std::vector<T> found(y.size());
        job.out = found.data();
        tucker_values(job, 2);
        compare("values", rank, found, x);

        std::vector<Number> residual(y.size());
        for (size_t e = 0; e < y.size(); ++e) residual[e] = widened(y[e]) - x[e];
        job = {Task::residual, tree(), tensor(core, factors, rank)};
        job.y.whole = y.data();
        check_gradient("gradient", residual, job);
        job = {Task::normal, tree(), tensor(core, factors, rank),
               tensor(step_core, step_factors, rank)};
        check_gradient("Gauss-Newton", tangent(), job);
    }

    void check_modes() const {
        const FibreList list{columns.data(), starts[1].data(), tree().leaves,
                             int64_t(columns.size())};
        const size_t r = size_t(rank);
        std::vector<Number> products(columns.size() * r), want(factors[2].size());
        for_entries([&](size_t e, size_t f, uint32_t, uint32_t, uint32_t k) {
            for (size_t c = 0; c < r; ++c)
                products[f * r + c] += std::conj(widened(y[e])) * widened(factors[2][k * r + c]);
        });
        for_entries([&](size_t e, size_t f, uint32_t, uint32_t, uint32_t k) {
            for (size_t c = 0; c < r; ++c) want[k * r + c] += widened(y[e]) * products[f * r + c];
        });
        std::vector<T> found(factors[2].size());
        gram_pass(list, Values<T>{y.data()}, factors[2].data(), sizes[2], rank, found.data(), 2);
        compare("Gram", rank, found, want);

        const std::vector<T>& left = factors[2];
        std::vector<T> right, across(size_t(sizes[0] * sizes[1]) * r), along(left.size());
        for (int64_t i = 0; i < sizes[0] * sizes[1] * rank; ++i)
            right.push_back(left[size_t(i) % left.size()]);
        std::vector<Number> want_across(across.size()), want_along(along.size());
        for_entries([&](size_t e, size_t f, uint32_t, uint32_t, uint32_t k) {
            const size_t at = size_t(columns[f]) * r;
            Number g = widened(y[e]);
            for (size_t c = 0; c < r; ++c) g -= widened(left[k * r + c]) * widened(right[at + c]);
            for (size_t c = 0; c < r; ++c) {
                want_across[at + c] += g * std::conj(widened(left[k * r + c]));
                want_along[k * r + c] += g * std::conj(widened(right[at + c]));
            }
        });
        mode_pass(list, Values<T>{y.data()}, left.data(), sizes[2], right.data(), right.data(),
                  sizes[0] * sizes[1], rank, across.data(), along.data(), 2);
        compare("single mode, across", rank, across, want_across);
        compare("single mode, along", rank, along, want_along);
    }

    // Sweeps over panels of real numbers: the rows of a factor, repeated.
    void check_panels() const {
        if constexpr (!is_complex<T>) {
            const int64_t n_rows = rank < 9 ? 2 * min_panel_rows + 3 : 2 * panel_block + 3;
            const size_t r = size_t(rank);
            const double step = 0.5;
            std::vector<T> panels[3];
            for (size_t k = 0; k < 3; ++k)
                for (size_t i = 0; i < size_t(n_rows) * r; ++i)
                    panels[k].push_back(factors[2][(7 * k * i + i) % factors[2].size()]);
            const auto z = [&](size_t i) { return panels[1][i] + step * panels[2][i]; };
            std::vector<double> matrix, vz(r * r), zz(r * r), gram(r * r);
            for (size_t i = 0; i < 2 * r * r; ++i)
                matrix.push_back(double(factors[2][i % factors[2].size()]));
            std::vector<Number> want_vz(r * r), want_zz(r * r), want(size_t(n_rows) * r);
            for (size_t t = 0; t < size_t(n_rows); ++t)
                for (size_t i = 0; i < r; ++i)
                    for (size_t j = 0; j < r; ++j) {
                        want_vz[i * r + j] += double(panels[0][t * r + i]) * z(t * r + j);
                        want_zz[i * r + j] += double(z(t * r + i)) * z(t * r + j);
                        want[t * r + j] += double(panels[0][t * r + i]) * matrix[i * r + j] +
                                           z(t * r + i) * matrix[(r + i) * r + j];
                    }
            const Moved<T> moved{panels[1].data(), panels[2].data(), step};
            panel_products(n_rows, rank, panels[0].data(), moved, vz.data(), zz.data(), 2);
            std::vector<T> out(size_t(n_rows) * r);
            panel_combine(n_rows, rank, panels[0].data(), moved, matrix.data(), out.data(),
                          gram.data(), 2);
            compare("panel products", rank, narrowed(vz), want_vz);
            compare("panel squares", rank, narrowed(zz), want_zz);
            compare("panel combination", rank, out, want);

            const int64_t n_matrices = 3;
            std::vector<T> matrices;
            for (size_t i = 0; i < size_t(n_matrices) * r * r; ++i)
                matrices.push_back(factors[2][i % factors[2].size()]);
            std::vector<T> multiplied(size_t(n_matrices * n_rows) * r);
            std::vector<Number> want_multiplied(multiplied.size());
            for (size_t p = 0; p < size_t(n_matrices); ++p)
                for (size_t t = 0; t < size_t(n_rows); ++t)
                    for (size_t i = 0; i < r; ++i)
                        for (size_t j = 0; j < r; ++j)
                            want_multiplied[(p * size_t(n_rows) + t) * r + j] +=
                                double(panels[0][t * r + i]) *
                                double(matrices[(p * r + i) * r + j]);
            panel_multiply(n_rows, rank, panels[0].data(), n_matrices, matrices.data(), rank,
                           multiplied.data(), 2);
            compare("panel multiplication", rank, multiplied, want_multiplied);

            std::vector<T> adjoint(r * r);
            std::vector<Number> want_adjoint(r * r);
            for (size_t t = 0; t < size_t(n_rows); ++t)
                for (size_t i = 0; i < r; ++i)
                    for (size_t j = 0; j < r; ++j)
                        want_adjoint[i * r + j] +=
                            double(panels[0][t * r + i]) * double(panels[1][t * r + j]);
            panel_adjoint(n_rows, rank, panels[0].data(), panels[1].data(), rank, adjoint.data(),
                          2);
            compare("panel adjoint", rank, adjoint, want_adjoint);
        }
    }

    static std::vector<T> narrowed(const std::vector<double>& numbers) {
        return std::vector<T>(numbers.begin(), numbers.end());
    }
};

template <class T>
void check_type() {
    for (const int64_t rank : {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 15, 16, 17,
                               18, 19, 20, 23, 24, 25, 28, 31, 32, 33, 40, 48, 56, 64, 65}) {
        for (const int density : {0, 1, 2}) {
            const Case<T> drawn(rank, density);
            drawn.check_tucker();
            drawn.check_modes();
            drawn.check_panels();
        }
    }
}

}  // namespace
}  // namespace tensormend

int main() {
    using namespace tensormend;
    for (const auto& [name, target] : list_targets()) {
        current_target() = target;
        check_type<double>();
        check_type<float>();
        check_type<Complex<double>>();
        check_type<Complex<float>>();
        std::printf("%s: %d sums checked, %d wrong\n", name, int(n_checked), int(n_wrong));
    }
    return n_wrong ? 1 : 0;
}
