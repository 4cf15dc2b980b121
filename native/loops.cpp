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

template <class T>
inline T product(int64_t rank, const T* RESTRICT a, const T* RESTRICT b) {
    T sum{};
    for (int64_t k = 0; k < rank; ++k) add_product(sum, a[k], b[k]);
    return sum;
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

    inline Real dot(const Row& other) const { return sum(head * other.head, other); }

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
    inline Real dot(const Row&) const { return 0; }
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

// A rank known to the compiler (R > 0) lets it unroll the loops and hold the row of the fibre in
// registers; R = 0 stands for any rank.
template <class T, int R>
void evaluate(int64_t count, int64_t rank, const uint32_t* RESTRICT leaves,
              const T* RESTRICT left, const T* RESTRICT b, T* RESTRICT out) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> u, row[C];
        load_spread<R>(b, row);
        for (int64_t e = 0; e < count; ++e) {
            u.load(reals(left) + int64_t(leaves[e]) * W);
            for (int c = 0; c < C; ++c) reals(out)[C * e + c] = u.dot(row[c]);
        }
    } else {
        for (int64_t e = 0; e < count; ++e)
            out[e] = product<T>(rank, left + int64_t(leaves[e]) * rank, b);
    }
}

// b and v may be the same row: both are only read.
template <class T, int R>
double pull(int64_t count, int64_t rank, const uint32_t* RESTRICT leaves, const T* RESTRICT y,
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
        if constexpr (C == 1) {
            sum[0].store(acc);
        } else {
            Real spare[C * W];
            for (int c = 0; c < C; ++c) sum[c].store(spare + c * W);
            collect_conj(R, spare, acc);
        }
    } else {
        for (int64_t k = 0; k < rank; ++k) acc[k] = T{};
        for (int64_t e = 0; e < count; ++e) {
            const int64_t at = int64_t(leaves[e]) * rank;
            const T* RESTRICT u = left + at;
            T* RESTRICT to = along + at;
            const T g = difference(y[e], product<T>(rank, u, b));
            norm += squared(g);
            for (int64_t k = 0; k < rank; ++k) add_product_conj(acc[k], g, u[k]);
            for (int64_t k = 0; k < rank; ++k) add_product_conj(to[k], g, v[k]);
            if (residual) residual[e] = g;
        }
    }
    return norm;
}

template <class T, int R>
void gather(int64_t count, int64_t rank, const uint32_t* RESTRICT leaves, const T* RESTRICT y,
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
        if constexpr (C == 1) {
            sum[0].store(acc);
        } else {
            Real spare[C * W];
            for (int c = 0; c < C; ++c) sum[c].store(spare + c * W);
            collect_conj(R, spare, acc);
        }
    } else {
        for (int64_t k = 0; k < rank; ++k) acc[k] = T{};
        for (int64_t e = 0; e < count; ++e) {
            const T* RESTRICT u = left + int64_t(leaves[e]) * rank;
            for (int64_t k = 0; k < rank; ++k) add_product_conj(acc[k], y[e], u[k]);
        }
    }
}

template <class T, int R>
void scatter(int64_t count, int64_t rank, const uint32_t* RESTRICT leaves, const T* RESTRICT y,
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
        for (int64_t e = 0; e < count; ++e) {
            T* RESTRICT to = along + int64_t(leaves[e]) * rank;
            for (int64_t k = 0; k < rank; ++k) add_product_conj(to[k], y[e], v[k]);
        }
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
        for (int64_t a = 0; a < n_rows; ++a)
            for (int64_t k = 0; k < rank; ++k) add_product(out[k], u[a], block[a * rank + k]);
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
            for (int64_t k = 0; k < rank; ++k)
                add_product_conj(grad[a], acc[k], block[a * rank + k]);
            for (int64_t k = 0; k < rank; ++k) add_product_conj(up[a * rank + k], acc[k], u[a]);
        }
    }
}

template <class T, int R>
constexpr Loops<T> table() {
    return {evaluate<T, R>, pull<T, R>, gather<T, R>, scatter<T, R>, contract<T, R>, fold<T, R>};
}

}  // namespace

template <class T>
Loops<T> loops(int64_t rank) {
    switch (rank) {
        case 1: return table<T, 1>();
        case 2: return table<T, 2>();
        case 3: return table<T, 3>();
        case 4: return table<T, 4>();
        case 5: return table<T, 5>();
        case 6: return table<T, 6>();
        case 7: return table<T, 7>();
        case 8: return table<T, 8>();
        case 9: return table<T, 9>();
        case 10: return table<T, 10>();
        case 11: return table<T, 11>();
        case 12: return table<T, 12>();
        case 13: return table<T, 13>();
        case 14: return table<T, 14>();
        case 15: return table<T, 15>();
        case 16: return table<T, 16>();
        default: return table<T, 0>();
    }
}

template Loops<float> loops<float>(int64_t);
template Loops<double> loops<double>(int64_t);
template Loops<Complex<float>> loops<Complex<float>>(int64_t);
template Loops<Complex<double>> loops<Complex<double>>(int64_t);

}  // namespace tensormend::TENSORMEND_TARGET
