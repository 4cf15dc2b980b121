// What lies at the entries: measurements and lead-mode coordinates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "loops.hpp"
#include "parallel.hpp"

namespace tensormend {

template <class T>
struct HalfOf {
    using type = T;  // float32 and complex64 have no half here
};
template <>
struct HalfOf<double> {
    using type = float;
};
template <>
struct HalfOf<Complex<double>> {
    using type = Complex<float>;
};

template <class Real>
void widen(Real from, double& to) {
    to = double(from);
}
template <class Real>
void widen(Complex<Real> from, Complex<double>& to) {
    to = {double(from.re), double(from.im)};
}

// Values at the entries: one of the two pointers is null.
template <class T>
struct Values {
    const T* whole = nullptr;
    const typename HalfOf<T>::type* half = nullptr;
};

// Lead-mode coordinates of the entries in 32 bits or, to save memory, in 16: one of the two
// pointers is null.
struct Leaves {
    const uint32_t* whole = nullptr;
    const uint16_t* half = nullptr;
};

// Reads what lies at the entries in the types of the loops. What takes half the bits is converted a
// piece at a time, small enough to stay in cache.
template <class T>
class EntryReader {
public:
    explicit EntryReader(const Leaves& leaves, const Values<T>& values = {})
        : leaves_(leaves), values_(values) {
        if (leaves.half) leaf_piece_.emplace_back(max_piece);
        if (values.half) value_piece_.emplace_back(max_piece);
    }

    // Whether entries come in pieces.
    bool converts() const { return leaves_.half || values_.half; }

    // How far a piece that begins with entry `first` may reach.
    int64_t piece_end(int64_t first, int64_t last) const {
        return converts() ? std::min(last, first + max_piece) : last;
    }

    const uint32_t* leaves(int64_t first, int64_t last) const {
        if (!leaves_.half) return leaves_.whole + first;
        uint32_t* const out = leaf_piece_[0].data();
        for (int64_t e = first; e < last; ++e) out[e - first] = leaves_.half[e];
        return out;
    }

    const T* values(int64_t first, int64_t last) const {
        if (!values_.half) return values_.whole ? values_.whole + first : nullptr;
        if constexpr (std::is_same_v<T, typename HalfOf<T>::type>) {
            return values_.half + first;
        } else {
            T* const out = value_piece_[0].data();
            for (int64_t e = first; e < last; ++e) widen(values_.half[e], out[e - first]);
            return out;
        }
    }

private:
    static constexpr int64_t max_piece = 2048;
    Leaves leaves_;
    Values<T> values_;
    std::vector<Buffer<uint32_t>> leaf_piece_;
    std::vector<Buffer<T>> value_piece_;
};

template <class T>
struct RealOf {
    using type = T;
};
template <class Real>
struct RealOf<Complex<Real>> {
    using type = Real;
};

struct Survey {
    double largest = 0;  // without its sign; NaN where there is one
    double square = 0;   // sum of squares
};

// Look at numbers once, in blocks whose sums are added in a fixed order.
template <class Real>
Survey survey(const Real* values, int64_t n, int64_t threads) {
    constexpr int64_t block = 16384;
    constexpr int lanes = 8;  // sums on their own, so that none waits for the one before
    std::vector<Survey> parts(size_t((n + block - 1) / block));
    run_tasks(int64_t(parts.size()), threads, [&](int64_t b) {
        Real largest[lanes] = {};
        double squares[lanes] = {};
        const int64_t end = std::min(n, (b + 1) * block);
        const auto look = [&](int64_t i, int lane) {
            const Real size = std::abs(values[i]);
            largest[lane] = std::max(largest[lane], size);
            squares[lane] += double(size) * double(size);
        };
        int64_t i = b * block;
        for (; i + lanes <= end; i += lanes)
            for (int lane = 0; lane < lanes; ++lane) look(i + lane, lane);
        for (; i < end; ++i) look(i, 0);
        Survey& part = parts[size_t(b)];
        for (int lane = 0; lane < lanes; ++lane) {
            part.largest = std::max(part.largest, double(largest[lane]));
            part.square += squares[lane];
        }
    });
    Survey all;
    for (const Survey& part : parts) {
        all.largest = std::max(all.largest, part.largest);
        all.square += part.square;
    }
    if (all.square != all.square) all.largest = all.square;  // comparisons pass NaN over
    return all;
}

}  // namespace tensormend
