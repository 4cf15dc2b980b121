// Measurements, kept in the type of the sums or in half of it.
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

// Reads values in the type of the sums; those of half the size are converted a piece at a time,
// small enough to stay in cache.
template <class T>
class ValueReader {
public:
    explicit ValueReader(const Values<T>& values) : values_(values) {
        if (values.half) piece_.emplace_back(max_piece);
    }

    // How far a piece that begins with entry `first` may reach.
    int64_t piece_end(int64_t first, int64_t last) const {
        return values_.half ? std::min(last, first + max_piece) : last;
    }

    const T* read(int64_t first, int64_t last) const {
        if (!values_.half) return values_.whole + first;
        if constexpr (std::is_same_v<T, typename HalfOf<T>::type>) {
            return values_.half + first;
        } else {
            T* const out = piece_[0].data();
            for (int64_t e = first; e < last; ++e) widen(values_.half[e], out[e - first]);
            return out;
        }
    }

private:
    static constexpr int64_t max_piece = 2048;
    Values<T> values_;
    std::vector<Buffer<T>> piece_;
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
