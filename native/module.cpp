// The Python module.
#include "bindings.hpp"
#include "dispatch.hpp"

namespace tensormend {
namespace {

nb::tuple targets() {
    nb::list names;
    for (const auto& [name, target] : list_targets()) names.append(name);
    return nb::tuple(names);
}

void use_target(const std::string& wanted) {
    std::string names;
    for (const auto& [name, target] : list_targets()) {
        if (wanted == name) {
            current_target() = target;
            return;
        }
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
    expect(false,
           "the instruction sets that this machine can run are " + names + ", got " + wanted);
}

}  // namespace
}  // namespace tensormend

NB_MODULE(_native, m) {
    using namespace tensormend;
    m.doc() = "Compiled kernels; kernels/reference.py says what each computes.";
    m.def("targets", targets, "Instruction sets that the loops can use here, the fastest last.");
    m.def("use_target", use_target, "name"_a, "Use the loops for one of these from now on.");
    bind_tucker(m);
    bind_modes(m);
    bind_panels(m);
    bind_entries(m);
}
