// Tall panels: sums of panels times small matrices, row by row, without temporaries of their size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "loops.hpp"
#include "parallel.hpp"

namespace tensormend {

template <class T>
struct Panel {
    const T* data;
    int64_t width;
};

// Rows of several panels side by side.
template <class T>
class RowsBeside {
public:
    explicit RowsBeside(const std::vector<Panel<T>>& panels) : panels_(panels) {
        for (const auto& panel : panels) width_ += panel.width;
    }

    int64_t width() const { return width_; }

    // A whole row, put together in `spare` where there are several panels.
    const T* row(int64_t i, T* spare) const {
        if (panels_.size() == 1) return panels_[0].data + i * width_;
        T* to = spare;
        for (const auto& panel : panels_)
            to = std::copy_n(panel.data + i * panel.width, panel.width, to);
        return spare;
    }

private:
    std::vector<Panel<T>> panels_;
    int64_t width_ = 0;
};

// sum_k panels[k] @ weights[k], the rows of which are `rank` long.
template <class T>
struct PanelSum {
    std::vector<Panel<T>> panels;
    std::vector<const T*> weights;
    int64_t n_rows, rank;

    using Rows = Loops<T, uint32_t>;

    // Rows first, ..., first + count - 1, no more than a group.
    void write(const Rows& loops, int64_t first, int64_t count, T* const* out) const {
        for (size_t p = 0; p < panels.size(); ++p) {
            const T* u[group_size];
            for (int64_t k = 0; k < count; ++k)
                u[k] = panels[p].data + (first + k) * panels[p].width;
            loops.contract(count, panels[p].width, rank, u, weights[p], out, p > 0);
        }
    }

    // Call body(task, first, end) for blocks of rows that depend on their number alone.
    template <class Body>
    void for_blocks(int64_t threads, const Body& body) const {
        const int64_t size = block_size();
        run_tasks(n_blocks(), threads, [&](int64_t i) {
            body(i, i * size, std::min(n_rows, (i + 1) * size));
        });
    }

    int64_t n_blocks() const { return (n_rows + block_size() - 1) / block_size(); }

private:
    int64_t block_size() const {
        constexpr int64_t min_rows = 4096;
        return std::max(min_rows, (n_rows + max_chunks - 1) / max_chunks);
    }
};

template <class T>
void panel_sum(const PanelSum<T>& sum, T* out, int64_t threads) {
    const auto loops = pick_loops<T, uint32_t>(sum.rank);
    sum.for_blocks(threads, [&](int64_t, int64_t first, int64_t end) {
        for (; first < end; first += group_size) {
            const int64_t count = std::min<int64_t>(group_size, end - first);
            T* rows[group_size];
            for (int64_t k = 0; k < count; ++k) rows[k] = out + (first + k) * sum.rank;
            sum.write(loops, first, count, rows);
        }
    });
}

// z^T conj(z) for z, the sum and beside it another panel of as many rows, which is not kept. `gram`
// comes zeroed.
template <class T>
void panel_gram(const PanelSum<T>& sum, const Panel<T>& beside, T* gram, int64_t threads) {
    const int64_t rank = sum.rank + beside.width, size = rank * rank;
    const auto sum_loops = pick_loops<T, uint32_t>(sum.rank);
    const auto loops = pick_loops<T, uint32_t>(rank);
    std::vector<uint32_t> places(static_cast<size_t>(rank));
    std::iota(places.begin(), places.end(), 0u);
    std::vector<Buffer<T>> buffers;
    for (int64_t i = 0; i < sum.n_blocks(); ++i) buffers.emplace_back(size);
    sum.for_blocks(threads, [&](int64_t i, int64_t first, int64_t end) {
        const Buffer<T> spare(group_size * rank);
        T* rows[group_size];
        for (int k = 0; k < group_size; ++k) rows[k] = spare.data() + k * rank;
        T* const own = buffers[size_t(i)].data();
        for (; first < end; first += group_size) {
            const int64_t count = std::min<int64_t>(group_size, end - first);
            sum.write(sum_loops, first, count, rows);
            for (int64_t k = 0; k < count; ++k)
                std::copy_n(beside.data + (first + k) * beside.width, beside.width,
                            rows[k] + sum.rank);
            if (count == group_size && loops.square) {
                loops.square(rank, rows, own);
                continue;
            }
            for (int64_t k = 0; k < count; ++k)
                loops.scatter(rank, rank, places.data(), rows[k], rows[k], own);
        }
    });
    for (const auto& buffer : buffers) add_to(gram, buffer.data(), size);
}

}  // namespace tensormend
