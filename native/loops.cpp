// Compiled once per instruction set, TENSORMEND_TARGET naming the namespace. Everything here has
// internal linkage and nothing of the standard library is used, because the linker could
// otherwise keep a copy of a shared inline function that was compiled for the wrong machine.
#include "loops.hpp"

#if defined(_MSC_VER)
#define RESTRICT __restrict
#define NOINLINE __declspec(noinline)
#else
#define RESTRICT __restrict__
#define NOINLINE __attribute__((noinline))
#endif

namespace tensormend::TENSORMEND_TARGET {
namespace {

template <class Real>
inline void add_product(Real& sum, Real a, Real b) {
    sum += a * b;
}

template <class Real>
inline void add_product(Complex<Real>& sum, Complex<Real> a, Complex<Real> b) {
    sum.re += a.re * b.re - a.im * b.im;
    sum.im += a.re * b.im + a.im * b.re;
}

template <class Real>
inline void add_product_conj(Real& sum, Real a, Real b) {
    sum += a * b;
}

template <class Real>
inline void add_product_conj(Complex<Real>& sum, Complex<Real> a, Complex<Real> b) {
    sum.re += a.re * b.re + a.im * b.im;
    sum.im += a.im * b.re - a.re * b.im;
}

template <class Real>
inline Real difference(Real a, Real b) {
    return a - b;
}

template <class Real>
inline Complex<Real> difference(Complex<Real> a, Complex<Real> b) {
    return {a.re - b.re, a.im - b.im};
}

template <class Real>
inline double squared(Real a) {
    return double(a) * double(a);
}

template <class Real>
inline double squared(Complex<Real> a) {
    return double(a.re) * double(a.re) + double(a.im) * double(a.im);
}

// The real numbers behind a row: one channel of them for real values, two for complex ones.
template <class T>
struct Parts {
    using Real = T;
    static constexpr int channels = 1;
};

template <class R>
struct Parts<Complex<R>> {
    using Real = R;
    static constexpr int channels = 2;
};

template <class T>
inline const typename Parts<T>::Real* reals(const T* values) {
    return reinterpret_cast<const typename Parts<T>::Real*>(values);
}

template <class T>
inline typename Parts<T>::Real* reals(T* values) {
    return reinterpret_cast<typename Parts<T>::Real*>(values);
}

// Write out a complex row b as the real rows [Re b, -Im b, ...] and [Im b, Re b, ...]. The real
// and imaginary part of u . b are then plain real products with the reals behind u, and
// g conj(b) is Re(g) times the first row plus Im(g) times the second: no loop below has to
// shuffle real and imaginary parts.
// Not to be inlined, here and below: GCC would otherwise keep the sums of the hot loop in memory
// for the sake of the shuffles after it.
template <class Real>
NOINLINE void spread(int64_t rank, const Complex<Real>* b, Real* rows) {
    for (int64_t k = 0; k < rank; ++k) {
        rows[2 * k] = b[k].re;
        rows[2 * k + 1] = -b[k].im;
        rows[2 * (rank + k)] = b[k].im;
        rows[2 * (rank + k) + 1] = b[k].re;
    }
}

// acc = sum g conj(u) from the rows sum Re(g) [Re u, Im u, ...] and sum Im(g) [Re u, Im u, ...]
template <class Real>
NOINLINE void collect_conj(int64_t rank, const Real* rows, Complex<Real>* acc) {
    for (int64_t k = 0; k < rank; ++k) {
        acc[k].re = rows[2 * k] + rows[2 * (rank + k) + 1];
        acc[k].im = rows[2 * (rank + k)] - rows[2 * k + 1];
    }
}

// acc = sum g u from the same rows
template <class Real>
NOINLINE void collect(int64_t rank, const Real* rows, Complex<Real>* acc) {
    for (int64_t k = 0; k < rank; ++k) {
        acc[k].re = rows[2 * k] - rows[2 * (rank + k) + 1];
        acc[k].im = rows[2 * (rank + k)] + rows[2 * k + 1];
    }
}

// Vector types of GCC and Clang, because left to themselves they unroll loops this short into
// scalar code. Other compilers get rows of scalars.
#if defined(__AVX2__)
constexpr int vector_bytes = 32;
#elif defined(__GNUC__)
constexpr int vector_bytes = 16;
#else
constexpr int vector_bytes = 0;
#endif

template <class Real, int N>
struct Lanes {
#if defined(__GNUC__)
    typedef Real type __attribute__((vector_size(N * sizeof(Real))));
    typedef Real in_memory
        __attribute__((vector_size(N * sizeof(Real)), aligned(alignof(Real)), may_alias));
#endif
};

template <class Real>
struct Lanes<Real, 1> {
    using type = Real;
    using in_memory = Real;
};

template <class Real, int N>
inline Real add_lanes(typename Lanes<Real, N>::type lanes) {
    if constexpr (N == 1) {
        return lanes;
    } else {
        Real sum = 0;
        for (int i = 0; i < N; ++i) sum += lanes[i];
        return sum;
    }
}

constexpr int widest(int width, int max) {
    return max <= 1 ? 1 : width >= max ? max : widest(width, max / 2);
}

// W reals in registers: whole vectors first, then halves for the rest. A recursive type rather
// than an array, because compilers move arrays to registers only while they are short.
template <class Real, int W, int Max = vector_bytes / int(sizeof(Real))>
struct Row {
    static constexpr int n_lanes = widest(W, Max);
    using Vector = typename Lanes<Real, n_lanes>::type;
    using InMemory = typename Lanes<Real, n_lanes>::in_memory;

    Vector head;
    Row<Real, W - n_lanes, n_lanes> tail;

    inline void load(const Real* from) {
        head = *reinterpret_cast<const InMemory*>(from);
        tail.load(from + n_lanes);
    }

    inline void store(Real* to) const {
        *reinterpret_cast<InMemory*>(to) = head;
        tail.store(to + n_lanes);
    }

    inline void clear() {
        head = Vector{};
        tail.clear();
    }

    inline void add(Real factor, const Row& other) {
        head += factor * other.head;
        tail.add(factor, other.tail);
    }

    inline void add(const Row& one, const Row& other) {
        head += one.head * other.head;
        tail.add(one.tail, other.tail);
    }

    inline Real dot(const Row& other) const { return sum(head * other.head, other); }

    inline Real total() const { return add_lanes<Real, n_lanes>(head) + tail.total(); }

    // The sum of the lanes so far and of the products beyond the head.
    inline Real sum(Vector lanes, const Row& other) const {
        if constexpr (W >= 2 * n_lanes) {
            return tail.sum(lanes + tail.head * other.tail.head, other.tail);
        } else {
            return add_lanes<Real, n_lanes>(lanes) + tail.dot(other.tail);
        }
    }
};

template <class Real, int Max>
struct Row<Real, 0, Max> {
    inline void load(const Real*) {}
    inline void store(Real*) const {}
    inline void clear() {}
    inline void add(Real, const Row&) {}
    inline void add(const Row&, const Row&) {}
    inline Real dot(const Row&) const { return 0; }
    inline Real total() const { return 0; }
};

// The row b once per channel, see spread.
template <int R, class Real>
inline void load_spread(const Real* b, Row<Real, R>* rows) {
    rows[0].load(b);
}

template <int R, class Real>
inline void load_spread(const Complex<Real>* b, Row<Real, 2 * R>* rows) {
    Real spare[4 * R];
    spread(R, b, spare);
    rows[0].load(spare);
    rows[1].load(spare + 2 * R);
}

// The sum of g conj(u) over the channels of g, from the sums of the reals behind u.
template <int R, class Real>
inline void store_conj(const Row<Real, R>* sums, Real* acc) {
    sums[0].store(acc);
}

template <int R, class Real>
inline void store_conj(const Row<Real, 2 * R>* sums, Complex<Real>* acc) {
    Real spare[4 * R];
    sums[0].store(spare);
    sums[1].store(spare + 2 * R);
    collect_conj(R, spare, acc);
}

template <class Real>
inline void add_to(Real& sum, Real a) {
    sum += a;
}

template <class Real>
inline void add_to(Complex<Real>& sum, Complex<Real> a) {
    sum.re += a.re;
    sum.im += a.im;
}

// Rows of any length: R <= 0 stands for lengths that leave the remainder -R when divided by the
// length of a strip, which real rows are cut into.
constexpr int strip = 8;

template <int R, class Real>
inline Real dot(int64_t rank, const Real* RESTRICT a, const Real* RESTRICT b) {
    Row<Real, strip> left, right, sum;
    sum.clear();
    int64_t k = 0;
    for (; k + strip <= rank; k += strip) {
        left.load(a + k);
        right.load(b + k);
        sum.add(left, right);
    }
    Row<Real, -R> last_left, last_right;
    last_left.load(a + k);
    last_right.load(b + k);
    return sum.total() + last_left.dot(last_right);
}

template <int R, class Real>
inline Complex<Real> dot(int64_t rank, const Complex<Real>* a, const Complex<Real>* b) {
    Complex<Real> sum{};
    for (int64_t k = 0; k < rank; ++k) add_product(sum, a[k], b[k]);
    return sum;
}

// to += g conj(row)
template <int R, class Real>
inline void add_row(int64_t rank, Real g, const Real* RESTRICT row, Real* RESTRICT to) {
    Row<Real, strip> from, into;
    int64_t k = 0;
    for (; k + strip <= rank; k += strip) {
        from.load(row + k);
        into.load(to + k);
        into.add(g, from);
        into.store(to + k);
    }
    Row<Real, -R> last_from, last_into;
    last_from.load(row + k);
    last_into.load(to + k);
    last_into.add(g, last_from);
    last_into.store(to + k);
}

template <int R, class Real>
inline void add_row(int64_t rank, Complex<Real> g, const Complex<Real>* RESTRICT row,
                    Complex<Real>* RESTRICT to) {
    for (int64_t k = 0; k < rank; ++k) add_product_conj(to[k], g, row[k]);
}

// A rank known to the compiler (R > 0) lets it unroll the loops and hold the row of the fibre in
// registers.
template <class T, class I, int R>
double evaluate(int64_t count, int64_t rank, const I* RESTRICT leaves, const T* RESTRICT left,
                const T* RESTRICT b, T* RESTRICT out) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    double norm = 0;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> u, row[C];
        load_spread<R>(b, row);
        for (int64_t e = 0; e < count; ++e) {
            u.load(reals(left) + int64_t(leaves[e]) * W);
            for (int c = 0; c < C; ++c) {
                const Real value = u.dot(row[c]);
                if (out)
                    reals(out)[C * e + c] = value;
                else
                    norm += double(value) * double(value);
            }
        }
    } else {
        for (int64_t e = 0; e < count; ++e) {
            const T value = dot<R>(rank, left + int64_t(leaves[e]) * rank, b);
            if (out)
                out[e] = value;
            else
                norm += squared(value);
        }
    }
    return norm;
}

// b and v may be the same row: both are only read.
template <class T, class I, int R>
double pull(int64_t count, int64_t rank, const I* RESTRICT leaves, const T* RESTRICT y,
            const T* RESTRICT left, const T* b, const T* v, T* RESTRICT acc, T* RESTRICT along,
            T* RESTRICT residual) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    double norm = 0;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> u, to, row[C], out[C], sum[C];
        load_spread<R>(b, row);
        load_spread<R>(v, out);
        for (int c = 0; c < C; ++c) sum[c].clear();
        for (int64_t e = 0; e < count; ++e) {
            const int64_t at = int64_t(leaves[e]) * W;
            u.load(reals(left) + at);
            to.load(reals(along) + at);
            for (int c = 0; c < C; ++c) {
                const Real g = reals(y)[C * e + c] - u.dot(row[c]);
                norm += double(g) * double(g);
                sum[c].add(g, u);
                to.add(g, out[c]);
                if (residual) reals(residual)[C * e + c] = g;
            }
            to.store(reals(along) + at);
        }
        store_conj<R>(sum, acc);
    } else {
        for (int64_t k = 0; k < rank; ++k) acc[k] = T{};
        for (int64_t e = 0; e < count; ++e) {
            const int64_t at = int64_t(leaves[e]) * rank;
            const T g = difference(y[e], dot<R>(rank, left + at, b));
            norm += squared(g);
            add_row<R>(rank, g, left + at, acc);
            add_row<R>(rank, g, v, along + at);
            if (residual) residual[e] = g;
        }
    }
    return norm;
}

// Like pull with the values themselves for a residual, taken from rows of twice the length.
template <class T, class I, int R>
double pull_wide(int64_t count, int64_t rank, const I* RESTRICT leaves, const T* RESTRICT left,
                 const T* RESTRICT wide, const T* RESTRICT b, T* RESTRICT acc,
                 T* RESTRICT along) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    double norm = 0;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> u, rest, to, row[C], row_rest[C], out[C], sum[C];
        load_spread<R>(wide, row);
        load_spread<R>(wide + R, row_rest);
        load_spread<R>(b, out);
        for (int c = 0; c < C; ++c) sum[c].clear();
        for (int64_t e = 0; e < count; ++e) {
            const int64_t leaf = int64_t(leaves[e]);
            u.load(reals(left) + leaf * 2 * W);
            rest.load(reals(left) + leaf * 2 * W + W);
            to.load(reals(along) + leaf * W);
            for (int c = 0; c < C; ++c) {
                const Real g = u.dot(row[c]) + rest.dot(row_rest[c]);
                norm += double(g) * double(g);
                sum[c].add(g, u);
                to.add(g, out[c]);
            }
            to.store(reals(along) + leaf * W);
        }
        store_conj<R>(sum, acc);
    } else {
        for (int64_t k = 0; k < rank; ++k) acc[k] = T{};
        for (int64_t e = 0; e < count; ++e) {
            const int64_t leaf = int64_t(leaves[e]);
            const T* const u = left + leaf * 2 * rank;
            T g = dot<R>(rank, u, wide);
            add_to(g, dot<R>(rank, u + rank, wide + rank));
            norm += squared(g);
            add_row<R>(rank, g, u, acc);
            add_row<R>(rank, g, b, along + leaf * rank);
        }
    }
    return norm;
}

template <class T, class I, int R>
void gather(int64_t count, int64_t rank, const I* RESTRICT leaves, const T* RESTRICT y,
            const T* RESTRICT left, T* RESTRICT acc) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> u, sum[C];
        for (int c = 0; c < C; ++c) sum[c].clear();
        for (int64_t e = 0; e < count; ++e) {
            u.load(reals(left) + int64_t(leaves[e]) * W);
            for (int c = 0; c < C; ++c) sum[c].add(reals(y)[C * e + c], u);
        }
        store_conj<R>(sum, acc);
    } else {
        for (int64_t k = 0; k < rank; ++k) acc[k] = T{};
        for (int64_t e = 0; e < count; ++e)
            add_row<R>(rank, y[e], left + int64_t(leaves[e]) * rank, acc);
    }
}

template <class T, class I, int R>
void scatter(int64_t count, int64_t rank, const I* RESTRICT leaves, const T* RESTRICT y,
             const T* RESTRICT v, T* RESTRICT along) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> to, out[C];
        load_spread<R>(v, out);
        for (int64_t e = 0; e < count; ++e) {
            Real* const at = reals(along) + int64_t(leaves[e]) * W;
            to.load(at);
            for (int c = 0; c < C; ++c) to.add(reals(y)[C * e + c], out[c]);
            to.store(at);
        }
    } else {
        for (int64_t e = 0; e < count; ++e)
            add_row<R>(rank, y[e], v, along + int64_t(leaves[e]) * rank);
    }
}

template <class T, int R>
void contract(int64_t n_rows, int64_t rank, const T* RESTRICT u, const T* RESTRICT block,
              T* RESTRICT out) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> row, sum[C];
        for (int c = 0; c < C; ++c) sum[c].clear();
        for (int64_t a = 0; a < n_rows; ++a) {
            row.load(reals(block) + a * W);
            for (int c = 0; c < C; ++c) sum[c].add(reals(u)[C * a + c], row);
        }
        if constexpr (C == 1) {
            sum[0].store(out);
        } else {
            Real spare[C * W];
            for (int c = 0; c < C; ++c) sum[c].store(spare + c * W);
            collect(R, spare, out);
        }
    } else {
        for (int64_t k = 0; k < rank; ++k) out[k] = T{};
        for (int64_t a = 0; a < n_rows; ++a) {
            if constexpr (C == 1) {
                add_row<R>(rank, u[a], block + a * rank, out);
            } else {
                for (int64_t k = 0; k < rank; ++k) add_product(out[k], u[a], block[a * rank + k]);
            }
        }
    }
}

// contract for rows of twice the length
template <class T, int R>
void contract_wide(int64_t n_rows, int64_t rank, const T* RESTRICT u, const T* RESTRICT block,
                   T* RESTRICT out) {
    if constexpr (R > 0) {
        contract<T, 2 * R>(n_rows, 2 * rank, u, block, out);
    } else {
        contract<T, -(-2 * R % strip)>(n_rows, 2 * rank, u, block, out);
    }
}

template <class T, int R>
void fold(int64_t n_rows, int64_t rank, const T* RESTRICT u, const T* RESTRICT block,
          const T* RESTRICT acc, T* RESTRICT grad, T* RESTRICT up) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> row, to, sum[C];  // sum: acc, and -i acc for complex values
        sum[0].load(reals(acc));
        if constexpr (C == 2) {
            T turned[R];
            for (int k = 0; k < R; ++k) turned[k] = {acc[k].im, -acc[k].re};
            sum[1].load(reals(turned));
        }
        for (int64_t a = 0; a < n_rows; ++a) {
            row.load(reals(block) + a * W);
            to.load(reals(up) + a * W);
            for (int c = 0; c < C; ++c) {
                reals(grad)[C * a + c] += row.dot(sum[c]);
                to.add(reals(u)[C * a + c], sum[c]);
            }
            to.store(reals(up) + a * W);
        }
    } else {
        for (int64_t a = 0; a < n_rows; ++a) {
            if constexpr (C == 1) {
                grad[a] += dot<R>(rank, block + a * rank, acc);
                add_row<R>(rank, u[a], acc, up + a * rank);
            } else {
                for (int64_t k = 0; k < rank; ++k)
                    add_product_conj(grad[a], acc[k], block[a * rank + k]);
                for (int64_t k = 0; k < rank; ++k)
                    add_product_conj(up[a * rank + k], acc[k], u[a]);
            }
        }
    }
}

// Call body(row of the fibre's factor, first entry, number of entries) for the fibres of a run,
// entries counted from the first of the run.
template <class I, class Body>
inline void for_fibres(const Run<I>& run, const Body& body) {
    for (int64_t f = run.begin; f < run.end; ++f) {
        const int64_t first = run.starts[f] < run.first ? run.first : run.starts[f];
        const int64_t last = run.starts[f + 1] > run.last ? run.last : run.starts[f + 1];
        body(int64_t(run.nodes[f]), first - run.first, last - first);
    }
}

template <class T, class I, int R>
double values(const Run<I>& run, const Branch<T>& x, T* out, T* spare) {
    double norm = 0;
    for_fibres(run, [&](int64_t node, int64_t first, int64_t count) {
        contract<T, R>(x.n_rows, x.rank, x.factor + node * x.n_rows, x.block, spare);
        norm += evaluate<T, I, R>(count, x.rank, run.leaves + first, x.lead, spare,
                                  out ? out + first : nullptr);
    });
    return norm;
}

template <class T, class I, int R>
double pullback(const Run<I>& run, const Branch<T>& x, const T* y, bool subtract,
                const Gradient<T>& sums, T* residual, T* spare) {
    T* const b = spare;
    T* const acc = spare + x.rank;
    double norm = 0;
    for_fibres(run, [&](int64_t node, int64_t first, int64_t count) {
        const T* const u = x.factor + node * x.n_rows;
        contract<T, R>(x.n_rows, x.rank, u, x.block, b);
        if (subtract) {
            norm += pull<T, I, R>(count, x.rank, run.leaves + first, y + first, x.lead, b, b, acc,
                                  sums.lead, residual ? residual + first : nullptr);
        } else {
            gather<T, I, R>(count, x.rank, run.leaves + first, y + first, x.lead, acc);
            scatter<T, I, R>(count, x.rank, run.leaves + first, y + first, b, sums.lead);
            for (int64_t e = first; e < first + count; ++e) norm += squared(y[e]);
        }
        fold<T, R>(x.n_rows, x.rank, u, x.block, acc, sums.factor + node * x.n_rows, sums.block);
    });
    return norm;
}

template <class T, class I, int R>
double normal(const Run<I>& run, const Branch<T>& wide, const Branch<T>& x,
              const Gradient<T>& sums, T* spare) {
    T* const b = spare;
    T* const acc = spare + x.rank;
    T* const wide_b = spare + 2 * x.rank;
    double norm = 0;
    for_fibres(run, [&](int64_t node, int64_t first, int64_t count) {
        const T* const u = x.factor + node * x.n_rows;
        contract<T, R>(x.n_rows, x.rank, u, x.block, b);
        contract_wide<T, R>(wide.n_rows, x.rank, wide.factor + node * wide.n_rows, wide.block,
                            wide_b);
        norm += pull_wide<T, I, R>(count, x.rank, run.leaves + first, wide.lead, wide_b, b, acc,
                                   sums.lead);
        fold<T, R>(x.n_rows, x.rank, u, x.block, acc, sums.factor + node * x.n_rows, sums.block);
    });
    return norm;
}

template <class T, class I, int R>
constexpr Loops<T, I> table() {
    return {evaluate<T, I, R>, pull<T, I, R>,   gather<T, I, R>,   scatter<T, I, R>,
            contract<T, R>,    fold<T, R>,      values<T, I, R>,   pullback<T, I, R>,
            normal<T, I, R>};
}

// Ranks from 1 to R on their own, longer rows in strips.
template <class T, class I, int R>
Loops<T, I> up_to(int64_t rank) {
    if (rank == R) return table<T, I, R>();
    if constexpr (R > 1) {
        return up_to<T, I, R - 1>(rank);
    } else {
        return table<T, I, 0>();
    }
}

template <class T, class I, int M>
Loops<T, I> in_strips(int64_t rank) {
    if (rank % strip == M) return table<T, I, -M>();
    if constexpr (M > 0) {
        return in_strips<T, I, M - 1>(rank);
    } else {
        return table<T, I, 0>();
    }
}

}  // namespace

template <class T, class I>
Loops<T, I> loops(int64_t rank) {
    constexpr int max_rank = Parts<T>::channels == 1 ? 16 : 8;
    if (Parts<T>::channels == 1 && rank > max_rank) return in_strips<T, I, strip - 1>(rank);
    return up_to<T, I, max_rank>(rank);
}

#define TENSORMEND_LOOPS(I)                                              \
    template Loops<float, I> loops<float, I>(int64_t);                   \
    template Loops<double, I> loops<double, I>(int64_t);                 \
    template Loops<Complex<float>, I> loops<Complex<float>, I>(int64_t); \
    template Loops<Complex<double>, I> loops<Complex<double>, I>(int64_t);
TENSORMEND_LOOPS(uint16_t)
TENSORMEND_LOOPS(uint32_t)

}  // namespace tensormend::TENSORMEND_TARGET
