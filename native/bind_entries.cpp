// Bindings of what sorts, reads and writes entries.
#include "bindings.hpp"
#include "parallel.hpp"
#include "sort.hpp"
#include "text.hpp"

namespace tensormend {
namespace {

template <class Index>
nb::object split_indices_as(nb::handle indices, const std::vector<int64_t>& bounds,
                            int64_t threads) {
    const Array<Index> rows(indices, "indices", 2);
    expect(size_t(rows.shape(1)) == bounds.size(), "indices must have one column per size");
    nb::list columns;
    std::vector<uint32_t*> out;
    for (size_t k = 0; k < bounds.size(); ++k) {
        const auto column = Output<uint32_t>::empty(rows.shape(0));
        out.push_back(column.data);
        columns.append(column.array);
    }
    int64_t bad = 0;
    {
        const nb::gil_scoped_release release;
        bad = split_rows(rows.data(), rows.shape(0), bounds, out, threads);
    }
    return nb::make_tuple(columns, bad);
}

std::vector<int64_t> expect_bounds(nb::sequence sizes) {
    auto bounds = nb::cast<std::vector<int64_t>>(sizes);
    expect(!bounds.empty(), "sizes must be one or more");
    for (const int64_t bound : bounds)
        expect(bound >= 1 && bound <= int64_t(UINT32_MAX), "sizes must fit 32 bits");
    return bounds;
}

nb::object split_indices_of(nb::object indices, nb::sequence sizes, int64_t threads) {
    const auto bounds = expect_bounds(sizes);
    expect_threads(threads);
    if (as_view(indices, "indices").dtype() == Type<int32_t>::dtype)
        return split_indices_as<int32_t>(indices, bounds, threads);
    return split_indices_as<int64_t>(indices, bounds, threads);
}

// Coordinates of the entries, one column per mode in tree order, below the sizes of the modes.
struct ColumnArguments {
    std::vector<Array<uint32_t>> arrays;
    std::vector<Column> columns;
    int64_t n_rows;

    ColumnArguments(nb::sequence objects, nb::sequence sizes)
        : arrays(as_arrays<uint32_t>(objects, "columns", 1)) {
        const auto bounds = nb::cast<std::vector<int64_t>>(sizes);
        expect(!arrays.empty() && arrays.size() == bounds.size(),
               "columns must be one or more, with one size each");
        n_rows = arrays[0].shape(0);
        for (size_t k = 0; k < arrays.size(); ++k) {
            expect(arrays[k].shape(0) == n_rows, "columns must have one length");
            columns.push_back({arrays[k].data(), bounds[k]});
        }
    }
};

nb::object sort_entries_of(nb::sequence columns, nb::sequence sizes, int64_t threads) {
    const ColumnArguments in(columns, sizes);
    expect_threads(threads);
    bool sorted = false;
    {
        const nb::gil_scoped_release release;
        sorted = is_sorted(in.columns, in.n_rows, threads);
    }
    if (sorted) return nb::none();
    for (size_t k = 0; k < in.arrays.size(); ++k)  // counts are kept for every coordinate
        expect_below(in.arrays[k], in.columns[k].bound, numbered("columns", k));
    const auto permutation = Output<int64_t>::empty(in.n_rows);
    {
        const nb::gil_scoped_release release;
        sort_rows(in.columns, in.n_rows, permutation.data);
    }
    return permutation.array;
}

template <class Number>
nb::list list_levels(const std::vector<std::vector<Number>>& levels) {
    nb::list arrays;
    for (const auto& level : levels) {
        const auto out = Output<Number>::empty(int64_t(level.size()));
        std::copy(level.begin(), level.end(), out.data);
        arrays.append(out.array);
    }
    return arrays;
}

nb::object find_nodes_of(nb::sequence columns, nb::sequence sizes, int64_t threads) {
    const ColumnArguments in(columns, sizes);
    expect_threads(threads);
    Nodes nodes;
    {
        const nb::gil_scoped_release release;
        nodes = find_nodes(in.columns, in.n_rows, threads);
    }
    return nb::make_tuple(list_levels(nodes.opens), nodes.n_repeated, nodes.first_repeated);
}

template <class Index>
nb::object read_tree_as(nb::handle indices, const std::vector<int64_t>& bounds,
                        const std::vector<size_t>& order, int64_t threads) {
    const Array<Index> rows(indices, "indices", 2);
    expect(size_t(rows.shape(1)) == bounds.size(), "indices must have one column per size");
    const auto leaves = Output<uint32_t>::empty(rows.shape(0));
    Nodes nodes;
    bool is_tree = false;
    {
        const nb::gil_scoped_release release;
        is_tree = read_tree(rows.data(), rows.shape(0), bounds, order, leaves.data, threads, nodes);
    }
    if (!is_tree) return nb::none();
    return nb::make_tuple(leaves.array, list_levels(nodes.opens), list_levels(nodes.coordinates));
}

nb::object read_tree_of(nb::object indices, nb::sequence sizes, nb::sequence modes,
                        int64_t threads) {
    const auto bounds = expect_bounds(sizes);
    const auto order = nb::cast<std::vector<size_t>>(modes);
    expect(order.size() == bounds.size(), "modes must be one per size");
    for (size_t k = 0; k < order.size(); ++k)
        expect(std::count(order.begin(), order.end(), k) == 1, "modes must name each mode once");
    expect_threads(threads);
    if (as_view(indices, "indices").dtype() == Type<int32_t>::dtype)
        return read_tree_as<int32_t>(indices, bounds, order, threads);
    return read_tree_as<int64_t>(indices, bounds, order, threads);
}

nb::object survey_of(nb::object values, int64_t threads) {
    expect_threads(threads);
    return dispatch_values(values, "values", [&](auto type) -> nb::object {
        using T = decltype(type);
        using Real = typename RealOf<T>::type;
        const Array<T> array(values, "values", 1);
        Survey found;
        {
            const nb::gil_scoped_release release;
            const int64_t n = array.shape(0) * int64_t(sizeof(T) / sizeof(Real));
            found = survey(reinterpret_cast<const Real*>(array.data()), n, threads);
        }
        return nb::make_tuple(found.largest, found.square);
    });
}

nb::object parse_entries_of(nb::object text, nb::sequence sizes, int64_t threads) {
    const auto bounds = expect_bounds(sizes);
    expect_threads(threads);
    const Array<uint8_t> bytes(text, "text", 1);
    std::vector<Piece> pieces;
    int64_t n_rows = 0;
    {
        const nb::gil_scoped_release release;
        n_rows =
            cut_lines(reinterpret_cast<const char*>(bytes.data()), bytes.shape(0), threads, pieces);
    }
    const Output<uint32_t> indices("empty", nb::make_tuple(n_rows, bounds.size()));
    const auto values = Output<double>::empty(n_rows);
    Fault fault;
    int64_t n_entries = 0;
    {
        const nb::gil_scoped_release release;
        n_entries = parse_pieces(pieces, bounds, indices.data, values.data, threads, fault);
    }
    nb::object found = nb::none();
    if (fault.wrong != no_fault)
        found = nb::make_tuple(fault.line, int64_t(fault.wrong), fault.column);
    const nb::slice entries(nb::int_(0), nb::int_(n_entries), nb::int_(1));
    return nb::make_tuple(indices.array[entries], values.array[entries], found);
}

template <class Number>
nb::object format_entries_as(nb::handle indices, nb::handle values, int64_t threads) {
    const Array<int64_t> rows(indices, "indices", 2);
    const Array<Number> numbers(values, "values", 1);
    expect(rows.shape(0) == numbers.shape(0), "values must be one per row of indices");
    std::string text;
    {
        const nb::gil_scoped_release release;
        text = format_rows(rows.data(), numbers.data(), rows.shape(0), rows.shape(1), threads);
    }
    return nb::bytes(text.data(), text.size());
}

nb::object format_entries_of(nb::object indices, nb::object values, int64_t threads) {
    expect_threads(threads);
    const auto dtype = as_view(values, "values").dtype();
    if (dtype == Type<float>::dtype) return format_entries_as<float>(indices, values, threads);
    if (dtype == Type<int64_t>::dtype) return format_entries_as<int64_t>(indices, values, threads);
    return format_entries_as<double>(indices, values, threads);
}

}  // namespace

void bind_entries(nb::module_& m) {
    m.def("read_tree", read_tree_of, "indices"_a, "sizes"_a, "modes"_a, "threads"_a = 1,
          "Leaves, rows that open a node, and nodes of the tree of sorted entries, else None.");
    m.def("survey", survey_of, "values"_a, "threads"_a = 1,
          "Largest real or imaginary part without its sign, and the squared norm.");
    m.def("split_indices", split_indices_of, "indices"_a, "sizes"_a, "threads"_a = 1,
          "Columns of an m x d array as uint32, and the first row out of range or -1.");
    m.def("sort_entries", sort_entries_of, "columns"_a, "sizes"_a, "threads"_a = 1,
          "Permutation that sorts entries by their coordinates, None if they are sorted.");
    m.def("find_nodes", find_nodes_of, "columns"_a, "sizes"_a, "threads"_a = 1,
          "Rows that open a node of each level, and how many rows repeat the one before.");
    m.def("parse_entries", parse_entries_of, "text"_a, "sizes"_a, "threads"_a = 1,
          "Coordinates and values of the entries that lines of text hold, and the first fault.");
    m.def("format_entries", format_entries_of, "indices"_a, "values"_a, "threads"_a = 1,
          "Entries as lines of text.");
}

}  // namespace tensormend
