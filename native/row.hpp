// Rows of a matrix in vector registers. Included only by what is compiled once per instruction set,
// TENSORMEND_TARGET naming the namespace: everything here has internal linkage and nothing of the
// standard library is used, because the linker could otherwise keep a copy of a shared inline
// function that was compiled for the wrong machine.
#pragma once

#include "loops.hpp"

#if defined(_MSC_VER)
#define RESTRICT __restrict
#define INLINE __forceinline
#define NOINLINE __declspec(noinline)
#define INLINE_LAMBDA
#else
#define RESTRICT __restrict__
#define INLINE inline __attribute__((always_inline))  // GCC gives up where there are many loops
#define NOINLINE __attribute__((noinline))
#define INLINE_LAMBDA __attribute__((always_inline))
#endif
// Loops this short are sensitive to where they lie in memory: less so when they are unrolled.
#if defined(__clang__)
#define UNROLL_2 _Pragma("clang loop unroll_count(2)")
#define UNROLL_4 _Pragma("clang loop unroll_count(4)")
#elif defined(__GNUC__)
#define UNROLL_2 _Pragma("GCC unroll 2")
#define UNROLL_4 _Pragma("GCC unroll 4")
#else
#define UNROLL_2
#define UNROLL_4
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
#if defined(TENSORMEND_WIDE)
    asm("" : "+r"(offset), "+v"(result));
#else
    asm("" : "+r"(offset), "+x"(result));
#endif
}
INLINE void hide_stored(int64_t& offset) {
    asm("" : "+r"(offset) : : "memory");
}
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
#if defined(TENSORMEND_WIDE)  // compiled for AVX-512, by GCC or Clang
constexpr int vector_bytes = 64;
#elif defined(__GNUC__) && defined(__AVX2__)
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
#if defined(TENSORMEND_WIDE)  // GCC would take a way through memory
        if constexpr (N == 16) {
            low = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3, 4, 5, 6, 7);
            high = __builtin_shufflevector(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15);
            return add_lanes<Real, N / 2, M>(low + high);
        } else if constexpr (N == 8) {
            low = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3);
            high = __builtin_shufflevector(lanes, lanes, 4, 5, 6, 7);
            return add_lanes<Real, N / 2, M>(low + high);
        } else if constexpr (N == 4) {
            low = __builtin_shufflevector(lanes, lanes, 0, 1);
            high = __builtin_shufflevector(lanes, lanes, 2, 3);
            return add_lanes<Real, N / 2, M>(low + high);
        }
#endif
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

    INLINE void add_at(Real factor, const Real* other) {
        head += factor * *reinterpret_cast<const InMemory*>(other);
        tail.add_at(factor, other + n_lanes);
    }

    INLINE void add(const Row& one, const Row& other) {
        head += one.head * other.head;
        tail.add(one.tail, other.tail);
    }

    INLINE Real dot(const Row& other) const { return sum(head * other.head, other); }

    INLINE Real total() const { return add_lanes<Real, n_lanes, 1>(head) + tail.total(); }

    // Products with a row, both of whole vectors, added up to one.
    INLINE Vector multiply(const Row& other) const {
        if constexpr (W == n_lanes) {
            return head * other.head;
        } else {
            static_assert(W % n_lanes == 0);
            return head * other.head + tail.multiply(other.tail);
        }
    }

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
            return tail.template sum_row<M>(add_lanes<Real, n_lanes, next>(lanes), matrix + n_lanes,
                                            offset);
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
    INLINE void add_at(Real, const Real*) {}
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

// Real rows whose length the compiler does not know are cut into strips.
constexpr int strip = 8;

template <int W>
struct Width {
    static constexpr int value = W;
};

// Call body(Width, first column) for the rest of a row from column `at` on, less than a strip.
template <class Body>
INLINE void for_rest(int64_t at, int64_t rank, const Body& body) {
    static_assert(strip == 8, "pieces of 4, 2 and 1 make up any rest");
    const int64_t rest = rank - at;
    if (rest & 4) {
        body(Width<4>{}, at);
        at += 4;
    }
    if (rest & 2) {
        body(Width<2>{}, at);
        at += 2;
    }
    if (rest & 1) body(Width<1>{}, at);
}

}  // namespace
}  // namespace tensormend::TENSORMEND_TARGET
