// FunctionRef: a callable passed by reference for the length of one call, without an allocation.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace penstock {

template <class Signature>
class FunctionRef;

// Owns nothing: the callable must outlive the call it is passed to, as a lambda argument does.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_object_v<std::remove_reference_t<F>> && std::is_invocable_r_v<R, F&, Args...>)
  FunctionRef(F&& callable)  // implicit: call sites pass a lambda
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace penstock
