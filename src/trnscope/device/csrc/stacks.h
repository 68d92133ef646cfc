// Python stacks at dispatch, interned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trnscope {

struct StackFrame {
  std::string file, function;
  int line;
};

// Id of the calling thread's Python stack, from 1; 0 when Python does not run on it. Takes the GIL.
uint32_t intern_python_stack();

// Frames of a stack, innermost first; empty for an unknown id. The GIL must be held.
std::vector<StackFrame> describe_stack(uint32_t id);

// Forgets all stacks and lets go of their code objects; ids are not given again. The GIL must be held.
void reset_stacks();

}  // namespace trnscope
