#include "stacks.h"

#include <pybind11/pybind11.h>

#include <unordered_map>

namespace py = pybind11;

namespace trnscope {

namespace {

constexpr size_t kDeepest = 128;  // frames kept, from the innermost

struct CodePosition {
  PyCodeObject* code;  // borrowed while looking up, owned by the table through `codes`
  int instruction;
  bool operator==(const CodePosition&) const = default;
};

using Positions = std::vector<CodePosition>;

struct PositionsHash {
  size_t operator()(const Positions& positions) const {
    uint64_t hash = positions.size();
    for (const CodePosition& position : positions) {
      hash = (hash ^ reinterpret_cast<uintptr_t>(position.code)) * 0x9e3779b97f4a7c15ULL;
      hash = (hash ^ (hash >> 32) ^ static_cast<uint64_t>(position.instruction)) * 0xd1342543de82ef95ULL;
    }
    return hash ^ (hash >> 29);
  }
};

// Guarded by the GIL.
struct StackTable {
  std::unordered_map<Positions, uint32_t, PositionsHash> ids;
  std::unordered_map<uint32_t, const Positions*> by_id;
  std::unordered_map<PyCodeObject*, py::object> codes;  // keeps interned code objects alive
  uint32_t next_id = 1;
};

StackTable& table() {
  static auto& instance = *new StackTable;  // outlives the interpreter
  return instance;
}

std::string text(py::handle object) { return py::cast<std::string>(object); }

}  // namespace

uint32_t intern_python_stack() {
  const py::gil_scoped_acquire gil;
  thread_local Positions positions;
  positions.clear();
  auto frame = py::reinterpret_steal<py::object>(
      reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame && positions.size() < kDeepest) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    positions.push_back({reinterpret_cast<PyCodeObject*>(code.ptr()), PyFrame_GetLasti(raw)});
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  if (positions.empty()) return 0;
  StackTable& stacks = table();
  const auto [entry, is_new] = stacks.ids.try_emplace(positions, stacks.next_id);
  if (is_new) {
    ++stacks.next_id;
    stacks.by_id.emplace(entry->second, &entry->first);
    for (const CodePosition& position : positions) {
      auto* object = reinterpret_cast<PyObject*>(position.code);
      stacks.codes.try_emplace(position.code, py::reinterpret_borrow<py::object>(object));
    }
  }
  return entry->second;
}

std::vector<StackFrame> describe_stack(uint32_t id) {
  std::vector<StackFrame> frames;
  const auto found = table().by_id.find(id);
  if (found == table().by_id.end()) return frames;
  for (const CodePosition& position : *found->second) {
    const py::handle code(reinterpret_cast<PyObject*>(position.code));
    const char* name = PY_VERSION_HEX >= 0x030B0000 ? "co_qualname" : "co_name";
    frames.push_back({text(code.attr("co_filename")), text(code.attr(name)),
                      PyCode_Addr2Line(position.code, position.instruction)});
  }
  return frames;
}

void reset_stacks() {
  StackTable& stacks = table();
  stacks.by_id.clear();
  stacks.ids.clear();
  stacks.codes.clear();
}

}  // namespace trnscope
