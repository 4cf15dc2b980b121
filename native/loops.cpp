// Compiled once per instruction set, TENSORMEND_TARGET naming the namespace. Everything here has
// internal linkage and nothing of the standard library is used, because the linker could
// otherwise keep a copy of a shared inline function that was compiled for the wrong machine.
#include "loops.hpp"

#if defined(_MSC_VER)
#define RESTRICT __restrict
#define INLINE __forceinline
#define NOINLINE __declspec(noinline)
#else
#define RESTRICT __restrict__
#define INLINE inline __attribute__((always_inline))  // GCC gives up in a file with so many loops
#define NOINLINE __attribute__((noinline))
#endif

namespace tensormend::TENSORMEND_TARGET {
namespace {

template <class Real>
INLINE void add_product(Real& sum, Real a, Real b) {
    sum += a * b;
}

template <class Real>
INLINE void add_product(Complex<Real>& sum, Complex<Real> a, Complex<Real> b) {
    sum.re += a.re * b.re - a.im * b.im;
    sum.im += a.re * b.im + a.im * b.re;
}

template <class Real>
INLINE void add_product_conj(Real& sum, Real a, Real b) {
    sum += a * b;
}

template <class Real>
INLINE void add_product_conj(Complex<Real>& sum, Complex<Real> a, Complex<Real> b) {
    sum.re += a.re * b.re + a.im * b.im;
    sum.im += a.im * b.re - a.re * b.im;
}

template <class Real>
INLINE Real difference(Real a, Real b) {
    return a - b;
}

template <class Real>
INLINE Complex<Real> difference(Complex<Real> a, Complex<Real> b) {
    return {a.re - b.re, a.im - b.im};
}

template <class Real>
INLINE double squared(Real a) {
    return double(a) * double(a);
}

template <class Real>
INLINE double squared(Complex<Real> a) {
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
INLINE const typename Parts<T>::Real* reals(const T* values) {
    return reinterpret_cast<const typename Parts<T>::Real*>(values);
}

template <class T>
INLINE typename Parts<T>::Real* reals(T* values) {
    return reinterpret_cast<typename Parts<T>::Real*>(values);
}

// Hide from the compiler that an offset is still the same, after it was used for `result` or to
// store something. The next use then addresses memory as base + offset within the instruction that
// computes, where the compiler would work out addresses and load numbers in instructions of their
// own. It pays where instructions that multiply and add can read memory at any address.
#if defined(__GNUC__) && defined(__AVX2__)
template <class Lanes>
INLINE void hide(int64_t& offset, Lanes& result) {
#if defined(__clang__)
    if constexpr (sizeof(Lanes) == 8) {  // it has no register for two floats, but for a double
        double bits;
        __builtin_memcpy(&bits, &result, sizeof bits);
        asm("" : "+r"(offset), "+x"(bits));
        __builtin_memcpy(&result, &bits, sizeof bits);
        return;
    }
#endif
    asm("" : "+r"(offset), "+x"(result));
}
INLINE void hide_stored(int64_t& offset) { asm("" : "+r"(offset) : : "memory"); }
#else
template <class Lanes>
INLINE void hide(int64_t&, Lanes&) {}
INLINE void hide_stored(int64_t&) {}
#endif

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
#if defined(__GNUC__) && defined(__AVX2__)
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

// N lanes added up to M, half of them to the other half at a time.
template <class Real, int N, int M>
INLINE typename Lanes<Real, M>::type add_lanes(typename Lanes<Real, N>::type lanes) {
    if constexpr (N == M) {
        return lanes;
    } else if constexpr (M == 1 && N == 2) {
        const typename Lanes<Real, 2>::type high = {lanes[1], lanes[1]};
        lanes += high;
        return lanes[0];
    } else {
        using Half = typename Lanes<Real, N / 2>::type;
        Half low, high;
        __builtin_memcpy(&low, &lanes, sizeof(Half));
        __builtin_memcpy(&high, reinterpret_cast<const char*>(&lanes) + sizeof(Half), sizeof(Half));
        return add_lanes<Real, N / 2, M>(low + high);
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

    INLINE void load(const Real* from) {
        head = *reinterpret_cast<const InMemory*>(from);
        tail.load(from + n_lanes);
    }

    INLINE void store(Real* to) const {
        *reinterpret_cast<InMemory*>(to) = head;
        tail.store(to + n_lanes);
    }

    INLINE void clear() {
        head = Vector{};
        tail.clear();
    }

    INLINE void negate() {
        head = -head;
        tail.negate();
    }

    INLINE void add(Real factor, const Row& other) {
        head += factor * other.head;
        tail.add(factor, other.tail);
    }

    INLINE void add(const Row& one, const Row& other) {
        head += one.head * other.head;
        tail.add(one.tail, other.tail);
    }

    INLINE Real dot(const Row& other) const { return sum(head * other.head, other); }

    INLINE Real total() const { return add_lanes<Real, n_lanes, 1>(head) + tail.total(); }

    // The sum of the lanes so far and of the products beyond the head. The lanes are added up to
    // no fewer than the next vector of the row has.
    INLINE Real sum(Vector lanes, const Row& other) const {
        if constexpr (W == n_lanes) {
            return add_lanes<Real, n_lanes, 1>(lanes);
        } else {
            constexpr int next = decltype(tail)::n_lanes;
            return tail.sum(add_lanes<Real, n_lanes, next>(lanes) + tail.head * other.tail.head,
                            other.tail);
        }
    }

    // Below, the other row is the one at an offset of a matrix, see hide.
    INLINE static Vector at(const Real* matrix, int64_t offset) {
        return *reinterpret_cast<const InMemory*>(matrix + offset);
    }

    INLINE void add_row(Real factor, const Real* matrix, int64_t& offset) {
        head += factor * at(matrix, offset);
        hide(offset, head);
        tail.add_row(factor, matrix + n_lanes, offset);
    }

    INLINE void add_to_row(Real* matrix, int64_t& offset, Real factor) const {
        put(at(matrix, offset) + factor * head, matrix, offset);
        tail.add_to_row(matrix + n_lanes, offset, factor);
    }

    INLINE void add_to_row(Real* matrix, int64_t& offset, Real factor, Real other_factor,
                           const Row& other) const {
        put(at(matrix, offset) + factor * head + other_factor * other.head, matrix, offset);
        tail.add_to_row(matrix + n_lanes, offset, factor, other_factor, other.tail);
    }

    INLINE static void put(Vector lanes, Real* matrix, int64_t& offset) {
        hide(offset, lanes);
        *reinterpret_cast<InMemory*>(matrix + offset) = lanes;
        hide_stored(offset);
    }

    // start + dot
    INLINE Real dot_row(Real start, const Real* matrix, int64_t& offset) const {
        Vector lanes{};
        if constexpr (n_lanes > 1)
            lanes[0] = start;
        else
            lanes = start;
        return sum_row<1>(lanes, matrix, offset);
    }

    // The lanes so far and the products, added up to M lanes.
    template <int M>
    INLINE typename Lanes<Real, M>::type sum_row(Vector lanes, const Real* matrix,
                                                 int64_t& offset) const {
        lanes += head * at(matrix, offset);
        hide(offset, lanes);
        if constexpr (W == n_lanes) {
            return add_lanes<Real, n_lanes, M>(lanes);
        } else {
            constexpr int next = decltype(tail)::n_lanes;
            return tail.template sum_row<M>(add_lanes<Real, n_lanes, next>(lanes),
                                            matrix + n_lanes, offset);
        }
    }
};

template <class Real, int Max>
struct Row<Real, 0, Max> {
    INLINE void load(const Real*) {}
    INLINE void store(Real*) const {}
    INLINE void clear() {}
    INLINE void negate() {}
    INLINE void add_row(Real, const Real*, int64_t&) {}
    INLINE void add_to_row(Real*, int64_t&, Real) const {}
    INLINE void add_to_row(Real*, int64_t&, Real, Real, const Row&) const {}
    INLINE void add(Real, const Row&) {}
    INLINE void add(const Row&, const Row&) {}
    INLINE Real dot(const Row&) const { return 0; }
    INLINE Real total() const { return 0; }
};

// For products that are summed: where a row is one whole vector and some more, halves of vectors
// leave fewer lanes to add up.
constexpr int thin_lanes(int width, int max) {
    return vector_bytes >= 32 && width > max && width < 2 * max ? max / 2 : max;
}

template <class Real, int W>
using ThinRow = Row<Real, W, thin_lanes(W, vector_bytes / int(sizeof(Real)))>;

// The row b once per channel, see spread.
template <int R, class Real, int Max>
INLINE void load_spread(const Real* b, Row<Real, R, Max>* rows) {
    rows[0].load(b);
}

template <int R, class Real, int Max>
INLINE void load_spread(const Complex<Real>* b, Row<Real, 2 * R, Max>* rows) {
    Real spare[4 * R];
    spread(R, b, spare);
    rows[0].load(spare);
    rows[1].load(spare + 2 * R);
}

// The sum of g conj(u) over the channels of g, from the sums of the reals behind u.
template <int R, class Real>
INLINE void store_conj(const Row<Real, R>* sums, Real* acc) {
    sums[0].store(acc);
}

template <int R, class Real>
INLINE void store_conj(const Row<Real, 2 * R>* sums, Complex<Real>* acc) {
    Real spare[4 * R];
    sums[0].store(spare);
    sums[1].store(spare + 2 * R);
    collect_conj(R, spare, acc);
}

// Rows of any length: R <= 0 stands for lengths that leave the remainder -R when divided by the
// length of a strip, which real rows are cut into.
constexpr int strip = 8;

// The template argument for rows of twice the length.
constexpr int twice(int R) { return R > 0 ? 2 * R : -(-2 * R % strip); }

template <int R, class Real>
INLINE Real dot(int64_t rank, const Real* RESTRICT a, const Real* RESTRICT b) {
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
INLINE Complex<Real> dot(int64_t rank, const Complex<Real>* a, const Complex<Real>* b) {
    Complex<Real> sum{};
    for (int64_t k = 0; k < rank; ++k) add_product(sum, a[k], b[k]);
    return sum;
}

// to += g conj(row)
template <int R, class Real>
INLINE void add_row(int64_t rank, Real g, const Real* RESTRICT row, Real* RESTRICT to) {
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
INLINE void add_row(int64_t rank, Complex<Real> g, const Complex<Real>* RESTRICT row,
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
        ThinRow<Real, W> u, row[C];
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

#if defined(__GNUC__) && defined(__AVX2__)
// Two entries at a time share the vectors of the number that a row has beyond whole ones and of the
// residual. That pays for rows of one vector and a number where a fibre is long; for longer rows
// there are too few registers.
template <class T, int R>
constexpr bool has_pairs = false;
template <>
constexpr bool has_pairs<double, 5> = true;
constexpr int64_t long_fibre = 24;

using Two = Lanes<double, 2>::type;
using TwoInMemory = Lanes<double, 2>::in_memory;

INLINE Two load_two(const double* matrix, int64_t& one, int64_t& other) {
    Two found = {matrix[one], 0};
    hide(one, found);
    found[1] = matrix[other];
    hide(other, found);
    return found;
}

// `pull` for all pairs of entries: sets `sum`, adds to `norm`, returns how many entries are done.
template <class I, int R, bool Keep>
INLINE int64_t pull_pairs(int64_t count, const I* RESTRICT leaves, const double* RESTRICT y,
                          const double* RESTRICT left, const double* b, const double* v,
                          double* RESTRICT along, double* RESTRICT residual, Row<double, R>& sum,
                          double& norm) {
    constexpr int W = R - 1;
    Row<double, W, thin_lanes(R, 4)> minus;
    Row<double, W> out, one_sum, other_sum;
    minus.load(b);
    minus.negate();
    out.load(v);
    one_sum.clear();
    other_sum.clear();
    const Two last_minus = {-b[W], -b[W]}, last_out = {v[W], v[W]};
    const typename decltype(minus)::Vector none{};
    Two last_sum{}, squares{};
    int64_t e = 0;
    for (; e + 2 <= count; e += 2) {
        int64_t one = int64_t(leaves[e]) * R, other = int64_t(leaves[e + 1]) * R;
        const Two p = minus.template sum_row<2>(none, left, one);
        const Two q = minus.template sum_row<2>(none, left, other);
        const Two last = load_two(left + W, one, other);
        const Two g = *reinterpret_cast<const TwoInMemory*>(y + e) + last * last_minus +
                      Two{p[0], q[0]} + Two{p[1], q[1]};
        if constexpr (Keep) *reinterpret_cast<TwoInMemory*>(residual + e) = g;
        squares += g * g;
        last_sum += g * last;
        one_sum.add_row(g[0], left, one);
        other_sum.add_row(g[1], left, other);
        out.add_to_row(along, one, g[0]);
        out.add_to_row(along, other, g[1]);
        Two to = load_two(along + W, one, other) + g * last_out;
        hide(one, to);
        along[one + W] = to[0];
        along[other + W] = to[1];
    }
    double row[R];
    one_sum.add(1, other_sum);
    one_sum.store(row);
    row[W] = last_sum[0] + last_sum[1];
    sum.load(row);
    norm += squares[0] + squares[1];
    return e;
}
#endif

// `pull` for a rank known to the compiler, with or without the residual itself.
template <class T, class I, int R, bool Keep>
INLINE double pull_rows(int64_t count, const I* RESTRICT leaves, const T* RESTRICT y,
                        const T* RESTRICT left, const T* b, const T* v, T* RESTRICT acc,
                        T* RESTRICT along, T* RESTRICT residual) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    constexpr int W = C * R;
    ThinRow<Real, W> minus[C];
    Row<Real, W> out[C], sum[C];
    load_spread<R>(b, minus);
    load_spread<R>(v, out);
    for (int c = 0; c < C; ++c) minus[c].negate();
    for (int c = 0; c < C; ++c) sum[c].clear();
    double norm = 0;
    int64_t e = 0;
#if defined(__GNUC__) && defined(__AVX2__)
    if constexpr (has_pairs<T, R>) {
        if (count >= long_fibre)
            e = pull_pairs<I, R, Keep>(count, leaves, y, left, b, v, along, residual, *sum, norm);
    }
#endif
    for (; e < count; ++e) {
        int64_t at = int64_t(leaves[e]) * W;
        Real g[C];
        for (int c = 0; c < C; ++c) {
            g[c] = minus[c].dot_row(reals(y)[C * e + c], reals(left), at);
            norm += double(g[c]) * double(g[c]);
            if constexpr (Keep) reals(residual)[C * e + c] = g[c];
        }
        for (int c = 0; c < C; ++c) sum[c].add_row(g[c], reals(left), at);
        if constexpr (C == 1)
            out[0].add_to_row(reals(along), at, g[0]);
        else
            out[0].add_to_row(reals(along), at, g[0], g[1], out[1]);
    }
    store_conj<R>(sum, acc);
    return norm;
}

// b and v may be the same row: both are only read.
template <class T, class I, int R>
double pull(int64_t count, int64_t rank, const I* RESTRICT leaves, const T* RESTRICT y,
            const T* RESTRICT left, const T* b, const T* v, T* RESTRICT acc, T* RESTRICT along,
            T* RESTRICT residual) {
    if constexpr (R > 0) {
        if (residual)
            return pull_rows<T, I, R, true>(count, leaves, y, left, b, v, acc, along, residual);
        return pull_rows<T, I, R, false>(count, leaves, y, left, b, v, acc, along, residual);
    } else {
        double norm = 0;
        for (int64_t k = 0; k < rank; ++k) acc[k] = T{};
        for (int64_t e = 0; e < count; ++e) {
            const int64_t at = int64_t(leaves[e]) * rank;
            const T g = difference(y[e], dot<R>(rank, left + at, b));
            norm += squared(g);
            add_row<R>(rank, g, left + at, acc);
            add_row<R>(rank, g, v, along + at);
            if (residual) residual[e] = g;
        }
        return norm;
    }
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
        Row<Real, 2 * W> both, row[C];
        Row<Real, W> u, to, out[C], sum[C];
        load_spread<2 * R>(wide, row);
        load_spread<R>(b, out);
        for (int c = 0; c < C; ++c) sum[c].clear();
        for (int64_t e = 0; e < count; ++e) {
            const int64_t leaf = int64_t(leaves[e]);
            both.load(reals(left) + leaf * 2 * W);
            u.load(reals(left) + leaf * 2 * W);
            to.load(reals(along) + leaf * W);
            for (int c = 0; c < C; ++c) {
                const Real g = both.dot(row[c]);
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
            const T g = dot<twice(R)>(2 * rank, u, wide);
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

// out = sum_a u[a] block[a], or, with Add, that much more
template <class T, int R, bool Add>
INLINE void contract_one(int64_t n_rows, int64_t rank, const T* RESTRICT u,
                         const T* RESTRICT block, T* RESTRICT out) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> row, sum[C];
        for (int c = 0; c < C; ++c) sum[c].clear();
        if constexpr (Add && C == 1) sum[0].load(out);
        for (int64_t a = 0; a < n_rows; ++a) {
            row.load(reals(block) + a * W);
            for (int c = 0; c < C; ++c) sum[c].add(reals(u)[C * a + c], row);
        }
        if constexpr (C == 1) {
            sum[0].store(out);
        } else {
            Real spare[C * W];
            T collected[R];
            for (int c = 0; c < C; ++c) sum[c].store(spare + c * W);
            collect(R, spare, collected);
            for (int k = 0; k < R; ++k) {
                out[k].re = collected[k].re + (Add ? out[k].re : 0);
                out[k].im = collected[k].im + (Add ? out[k].im : 0);
            }
        }
    } else {
        if constexpr (!Add)
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

// grad[a] += conj(block[a]) . acc and up[a] += conj(u[a]) acc
template <class T, int R>
INLINE void fold_one(int64_t n_rows, int64_t rank, const T* RESTRICT u, const T* RESTRICT block,
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

// Several rows at a time, of fibres or of nodes above them: the block is then read, and the
// gradient with respect to it updated, once for all of them (a block that is not square is read
// once more for each in `dot_group`). The rows and what belongs to them come as pointers, no two
// of them the same. Rows are cut into tiles so that those of all fit into registers.
template <class Real>
constexpr int tile = vector_bytes > 0 ? 2 * vector_bytes / int(sizeof(Real)) : 4;

template <int W>
struct Width {
    static constexpr int value = W;
};

// Call body(Width, first column) for the tiles of a row.
template <int R, class Real, int At = 0, class Body>
INLINE void for_tiles(int64_t rank, const Body& body) {
    if constexpr (R > 0) {
        constexpr int width = R - At < tile<Real> ? R - At : tile<Real>;
        body(Width<width>{}, int64_t(At));
        if constexpr (At + width < R) for_tiles<R, Real, At + width>(rank, body);
    } else {
        const int64_t whole = rank + R;
        int64_t at = 0;
        for (; at + tile<Real> <= whole; at += tile<Real>) body(Width<tile<Real>>{}, at);
        if constexpr (tile<Real> > strip)
            for (; at < whole; at += strip) body(Width<strip>{}, at);
        if constexpr (R < 0) body(Width<-R>{}, at);
    }
}

// out[k] = sum_a u[k][a] block[a], or, with Add, that much more
template <class T, int R, bool Add>
INLINE void contract_group(int64_t n_rows, int64_t rank, const T* const* u,
                           const T* RESTRICT block, T* const* out) {
    const int64_t stride = R > 0 ? R : rank;
    for_tiles<R, T>(rank, [&](auto width, int64_t at) {
        Row<T, decltype(width)::value> row, sum[group_size];
        for (int k = 0; k < group_size; ++k) {
            if constexpr (Add)
                sum[k].load(out[k] + at);
            else
                sum[k].clear();
        }
        for (int64_t a = 0; a < n_rows; ++a) {
            row.load(block + a * stride + at);
            for (int k = 0; k < group_size; ++k) sum[k].add(u[k][a], row);
        }
        for (int k = 0; k < group_size; ++k) sum[k].store(out[k] + at);
    });
}

// up[a] += sum_k u[k][a] acc[k]
template <class T, int R>
INLINE void gather_group(int64_t n_rows, int64_t rank, const T* const* u, const T* const* acc,
                         T* RESTRICT up) {
    const int64_t stride = R > 0 ? R : rank;
    for_tiles<R, T>(rank, [&](auto width, int64_t at) {
        Row<T, decltype(width)::value> to, sum[group_size];
        for (int k = 0; k < group_size; ++k) sum[k].load(acc[k] + at);
        for (int64_t a = 0; a < n_rows; ++a) {
            to.load(up + a * stride + at);
            for (int k = 0; k < group_size; ++k) to.add(u[k][a], sum[k]);
            to.store(up + a * stride + at);
        }
    });
}

// grad[k][a] += block[a] . acc[k]
template <class T, int R>
INLINE void dot_group(int64_t n_rows, int64_t rank, const T* block, const T* const* acc,
                      T* const* grad) {
    if constexpr (R > 0) {
        ThinRow<T, R> row, sum;
        for (int k = 0; k < group_size; ++k) {
            sum.load(acc[k]);
            for (int64_t a = 0; a < n_rows; ++a) {
                row.load(block + a * R);
                grad[k][a] += row.dot(sum);
            }
        }
    } else {
        for (int64_t a = 0; a < n_rows; ++a) {
            Row<T, strip> row, other, sum[group_size];
            for (int k = 0; k < group_size; ++k) sum[k].clear();
            int64_t at = 0;
            for (; at + strip <= rank; at += strip) {
                row.load(block + a * rank + at);
                for (int k = 0; k < group_size; ++k) {
                    other.load(acc[k] + at);
                    sum[k].add(row, other);
                }
            }
            Row<T, -R> last, last_other;
            last.load(block + a * rank + at);
            for (int k = 0; k < group_size; ++k) {
                last_other.load(acc[k] + at);
                grad[k][a] += sum[k].total() + last.dot(last_other);
            }
        }
    }
}

// K rows: a group of real ones, or one.
template <class T, int R, bool Add, int K>
INLINE void contract_rows(int64_t n_rows, int64_t rank, const T* const* u, const T* block,
                          T* const* out) {
    if constexpr (K == 1) {
        contract_one<T, R, Add>(n_rows, rank, u[0], block, out[0]);
    } else {
        contract_group<T, R, Add>(n_rows, rank, u, block, out);
    }
}

// `transposed` is the block with its rows and columns exchanged, or null.
template <class T, int R, int K>
INLINE void fold_rows(int64_t n_rows, int64_t rank, const T* const* u, const T* block,
                      const T* transposed, const T* const* acc, T* const* grad, T* up) {
    if constexpr (K == 1) {
        fold_one<T, R>(n_rows, rank, u[0], block, acc[0], grad[0], up);
    } else {
        gather_group<T, R>(n_rows, rank, u, acc, up);
        if constexpr (R > 0) {
            if (transposed) {
                contract_group<T, R, true>(R, rank, acc, transposed, grad);
                return;
            }
        }
        dot_group<T, R>(n_rows, rank, block, acc, grad);
    }
}

template <class T>
constexpr bool has_groups = Parts<T>::channels == 1;

template <class T, int R>
void contract(int64_t count, int64_t n_rows, int64_t rank, const T* const* u, const T* block,
              T* const* out, bool add) {
    if constexpr (has_groups<T>) {
        if (count == group_size) {
            if (add)
                contract_group<T, R, true>(n_rows, rank, u, block, out);
            else
                contract_group<T, R, false>(n_rows, rank, u, block, out);
            return;
        }
    }
    for (int64_t k = 0; k < count; ++k) {
        if (add)
            contract_one<T, R, true>(n_rows, rank, u[k], block, out[k]);
        else
            contract_one<T, R, false>(n_rows, rank, u[k], block, out[k]);
    }
}

template <class T, int R>
void fold(int64_t count, int64_t n_rows, int64_t rank, const T* const* u, const T* block,
          const T* const* acc, T* const* grad, T* up) {
    if constexpr (has_groups<T>) {
        if (count == group_size) {
            fold_rows<T, R, group_size>(n_rows, rank, u, block, nullptr, acc, grad, up);
            return;
        }
    }
    for (int64_t k = 0; k < count; ++k)
        fold_one<T, R>(n_rows, rank, u[k], block, acc[k], grad[k], up);
}

// K fibres of a run: which row of the factor is whose, and where the entries are, counted from the
// first of the run.
template <int K>
struct Fibres {
    static constexpr int size = K;
    int64_t node[K], first[K], count[K];

    template <class I>
    Fibres(const Run<I>& run, int64_t f) {
        for (int k = 0; k < K; ++k, ++f) {
            const int64_t begin = run.starts[f] < run.first ? run.first : run.starts[f];
            const int64_t end = run.starts[f + 1] > run.last ? run.last : run.starts[f + 1];
            node[k] = int64_t(run.nodes[f]);
            first[k] = begin - run.first;
            count[k] = end - begin;
        }
    }
};

// Call body(Fibres) for all fibres of a run, in groups where the rows are real.
template <class T, class I, class Body>
INLINE void for_fibres(const Run<I>& run, const Body& body) {
    int64_t f = run.begin;
    if constexpr (has_groups<T>) {
        for (; f + group_size <= run.end; f += group_size) body(Fibres<group_size>(run, f));
    }
    for (; f < run.end; ++f) body(Fibres<1>(run, f));
}

// The rows of a matrix that belong to K fibres.
template <int K, class T>
struct Rows {
    T* row[K];

    Rows(T* matrix, int64_t length, const Fibres<K>& fibres) {
        for (int k = 0; k < K; ++k) row[k] = matrix + fibres.node[k] * length;
    }

    Rows(T* matrix, int64_t length) {
        for (int k = 0; k < K; ++k) row[k] = matrix + k * length;
    }

    T* operator[](int k) const { return row[k]; }
};

// A square block with its rows and columns exchanged, made only where there are fibres enough.
template <class T, int R>
class Transposed {
public:
    Transposed(const Branch<T>& x, int64_t n_fibres) {
        if (R <= 0 || Parts<T>::channels > 1 || x.n_rows != R || n_fibres < group_size) return;
        for (int a = 0; a < R; ++a)
            for (int c = 0; c < R; ++c) values_[c * R + a] = x.block[a * R + c];
        is_made_ = true;
    }

    const T* data() const { return is_made_ ? values_ : nullptr; }

private:
    T values_[R > 0 ? R * R : 1];
    bool is_made_ = false;
};

template <class T, class I, int R>
double values(const Run<I>& run, const Branch<T>& x, T* out, T* spare) {
    double norm = 0;
    for_fibres<T>(run, [&](auto fibres) {
        constexpr int K = fibres.size;
        const Rows<K, const T> u(x.factor, x.n_rows, fibres);
        const Rows<K, T> b(spare, x.rank);
        contract_rows<T, R, false, K>(x.n_rows, x.rank, u.row, x.block, b.row);
        for (int k = 0; k < K; ++k) {
            norm += evaluate<T, I, R>(fibres.count[k], x.rank, run.leaves + fibres.first[k], x.lead,
                                      b[k], out ? out + fibres.first[k] : nullptr);
        }
    });
    return norm;
}

template <class T, class I, int R>
double pullback(const Run<I>& run, const Branch<T>& x, const T* y, bool subtract,
                const Gradient<T>& sums, T* residual, T* spare) {
    const Transposed<T, R> transposed(x, run.end - run.begin);
    double norm = 0;
    for_fibres<T>(run, [&](auto fibres) {
        constexpr int K = fibres.size;
        const Rows<K, const T> u(x.factor, x.n_rows, fibres);
        const Rows<K, T> b(spare, x.rank), acc(spare + K * x.rank, x.rank);
        contract_rows<T, R, false, K>(x.n_rows, x.rank, u.row, x.block, b.row);
        for (int k = 0; k < K; ++k) {
            const int64_t first = fibres.first[k], count = fibres.count[k];
            const I* const leaves = run.leaves + first;
            if (subtract) {
                norm += pull<T, I, R>(count, x.rank, leaves, y + first, x.lead, b[k], b[k], acc[k],
                                      sums.lead, residual ? residual + first : nullptr);
            } else {
                gather<T, I, R>(count, x.rank, leaves, y + first, x.lead, acc[k]);
                scatter<T, I, R>(count, x.rank, leaves, y + first, b[k], sums.lead);
                for (int64_t e = first; e < first + count; ++e) norm += squared(y[e]);
            }
        }
        const Rows<K, T> grad(sums.factor, x.n_rows, fibres);
        fold_rows<T, R, K>(x.n_rows, x.rank, u.row, x.block, transposed.data(), acc.row, grad.row,
                           sums.block);
    });
    return norm;
}

// For K fibres, b and the rows that give the values of a tangent vector: what the block and the
// rows u contribute by moving, and then b, for the lead rows that move.
template <class T, int R, int K>
INLINE void contract_moving(const Branch<T>& x, const Branch<T>& step, const T* const* u,
                            const T* const* v, T* const* b, T* const* wide) {
    contract_rows<T, R, false, K>(x.n_rows, x.rank, u, x.block, b);
    contract_rows<T, R, false, K>(x.n_rows, x.rank, u, step.block, wide);
    contract_rows<T, R, true, K>(x.n_rows, x.rank, v, x.block, wide);
    for (int k = 0; k < K; ++k)
        for (int64_t i = 0; i < x.rank; ++i) wide[k][x.rank + i] = b[k][i];
}

template <class T, class I, int R>
double tangent(const Run<I>& run, const Branch<T>& x, const Branch<T>& step, T* spare) {
    double norm = 0;
    for_fibres<T>(run, [&](auto fibres) {
        constexpr int K = fibres.size;
        const Rows<K, const T> u(x.factor, x.n_rows, fibres), v(step.factor, x.n_rows, fibres);
        const Rows<K, T> b(spare, x.rank), wide(spare + K * x.rank, 2 * x.rank);
        contract_moving<T, R, K>(x, step, u.row, v.row, b.row, wide.row);
        for (int k = 0; k < K; ++k) {
            norm += evaluate<T, I, twice(R)>(fibres.count[k], 2 * x.rank,
                                             run.leaves + fibres.first[k], step.lead, wide[k],
                                             static_cast<T*>(nullptr));
        }
    });
    return norm;
}

template <class T, class I, int R>
double normal(const Run<I>& run, const Branch<T>& x, const Branch<T>& step,
              const Gradient<T>& sums, T* spare) {
    const Transposed<T, R> transposed(x, run.end - run.begin);
    double norm = 0;
    for_fibres<T>(run, [&](auto fibres) {
        constexpr int K = fibres.size;
        const Rows<K, const T> u(x.factor, x.n_rows, fibres), v(step.factor, x.n_rows, fibres);
        const Rows<K, T> b(spare, x.rank), acc(spare + K * x.rank, x.rank),
            wide(spare + 2 * K * x.rank, 2 * x.rank);
        contract_moving<T, R, K>(x, step, u.row, v.row, b.row, wide.row);
        for (int k = 0; k < K; ++k) {
            norm += pull_wide<T, I, R>(fibres.count[k], x.rank, run.leaves + fibres.first[k],
                                       step.lead, wide[k], b[k], acc[k], sums.lead);
        }
        const Rows<K, T> grad(sums.factor, x.n_rows, fibres);
        fold_rows<T, R, K>(x.n_rows, x.rank, u.row, x.block, transposed.data(), acc.row, grad.row,
                           sums.block);
    });
    return norm;
}

template <class T, class I, int R>
constexpr Loops<T, I> table() {
    return {evaluate<T, I, R>, pull<T, I, R>,   gather<T, I, R>,   scatter<T, I, R>,
            contract<T, R>,    fold<T, R>,      values<T, I, R>,   pullback<T, I, R>,
            tangent<T, I, R>,  normal<T, I, R>};
}

// Ranks from 1 to R on their own.
template <class T, class I, int R>
Loops<T, I> up_to(int64_t rank) {
    if (rank == R) return table<T, I, R>();
    if constexpr (R > 1) {
        return up_to<T, I, R - 1>(rank);
    } else {
        return table<T, I, 0>();
    }
}

// Longer rows of real numbers: whole numbers of strips, up to R of these numbers, on their own.
template <class T, class I, int R>
Loops<T, I> whole_strips(int64_t rank) {
    if (rank == R) return table<T, I, R>();
    if constexpr (R > strip) {
        return whole_strips<T, I, R - strip>(rank);
    } else {
        return table<T, I, 0>();
    }
}

// Others strip by strip, by what these leave.
template <class T, class I, int M>
Loops<T, I> in_strips(int64_t rank) {
    if (rank % strip == M) return table<T, I, -M>();
    if constexpr (M > 0) {
        return in_strips<T, I, M - 1>(rank);
    } else {
        return table<T, I, 0>();
    }
}

// Rows of scalars, not of vectors, are too long for the compiler beyond 16.
template <class T>
constexpr int max_rank = Parts<T>::channels > 1 ? 8 : vector_bytes > 0 ? 32 : 16;
template <class T>
constexpr int max_long_rank = Parts<T>::channels > 1 || vector_bytes == 0 ? 0 : 64;

// The number of vectors, whole or in part, that a row is cut into.
int64_t n_vectors(int64_t rank, int64_t n_lanes) {
    int64_t n = rank / n_lanes;
    for (int64_t rest = rank % n_lanes; rest > 0; rest &= rest - 1) ++n;
    return n;
}

}  // namespace

template <class T, class I>
Loops<T, I> loops(int64_t rank) {
    if (Parts<T>::channels > 1 || rank <= max_rank<T>) return up_to<T, I, max_rank<T>>(rank);
    if constexpr (max_long_rank<T> > 0) {
        if (rank <= max_long_rank<T> && rank % strip == 0)
            return whole_strips<T, I, max_long_rank<T>>(rank);
    }
    return in_strips<T, I, strip - 1>(rank);
}

template <class T>
int64_t roomy_rank(int64_t rank) {
    if (rank > max_long_rank<T>) return rank;
    if (rank > max_rank<T>) return (rank + strip - 1) / strip * strip;
    const int64_t n_lanes = vector_bytes / int64_t(sizeof(T));
    int64_t best = rank;
    for (int64_t more = rank + 1; 3 * more <= 4 * rank && more <= max_rank<T>; ++more)
        if (n_vectors(more, n_lanes) < n_vectors(best, n_lanes)) best = more;
    return best;
}

#define TENSORMEND_LOOPS(T)                                    \
    template Loops<T, uint16_t> loops<T, uint16_t>(int64_t);   \
    template Loops<T, uint32_t> loops<T, uint32_t>(int64_t);   \
    template int64_t roomy_rank<T>(int64_t);
TENSORMEND_LOOPS(float)
TENSORMEND_LOOPS(double)
TENSORMEND_LOOPS(Complex<float>)
TENSORMEND_LOOPS(Complex<double>)

}  // namespace tensormend::TENSORMEND_TARGET
