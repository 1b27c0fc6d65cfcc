// WebAssembly from this compiler has no exceptions: with -fignore-exceptions a `throw` becomes calls of the first two
// functions, and the module stops with a trap, which JavaScript sees as a WebAssembly.RuntimeError. So do the checks of the
// standard library, whose own function would print a message.
#include <cstddef>
#include <version>

extern "C" {
void* __cxa_allocate_exception(size_t) { __builtin_trap(); }
void __cxa_throw(void*, void*, void*) { __builtin_trap(); }
}

_LIBCPP_BEGIN_NAMESPACE_STD
void __libcpp_verbose_abort(const char*, ...) noexcept { __builtin_trap(); }
_LIBCPP_END_NAMESPACE_STD
