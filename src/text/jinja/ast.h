// A parsed chat template. Immutable, shared by all its renders.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace penstock {

struct JinjaExpr;
struct JinjaStmt;
using JinjaExprPtr = std::unique_ptr<const JinjaExpr>;
using JinjaBody = std::vector<JinjaStmt>;
using JinjaName = uint32_t;  // index into JinjaTemplate::names

// ---- Expressions

struct LiteralExpr {
  JinjaValue value;
};
struct NameExpr {
  JinjaName name;
};
struct SequenceExpr {
  JinjaSequenceKind kind;
  std::vector<JinjaExprPtr> items;
};
struct DictExpr {
  std::vector<std::pair<JinjaExprPtr, JinjaExprPtr>> entries;
};
enum class JinjaUnary { kNot, kNegative, kPositive };
struct UnaryExpr {
  JinjaUnary op;
  JinjaExprPtr operand;
};
struct BinaryExpr {
  JinjaOperator op;
  JinjaExprPtr left, right;
};
struct LogicExpr {
  bool is_and;
  JinjaExprPtr left, right;
};
struct ConcatExpr {
  std::vector<JinjaExprPtr> parts;
};
enum class JinjaComparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};
struct CompareExpr {
  JinjaExprPtr first;
  std::vector<std::pair<JinjaComparison, JinjaExprPtr>> rest;  // a < b < c
};
struct ConditionExpr {
  JinjaExprPtr test, then;
  JinjaExprPtr otherwise;  // may be null: undefined
};
struct AttributeExpr {
  JinjaExprPtr object;
  std::string name;
};
struct ItemExpr {
  JinjaExprPtr object, index;
};
struct SliceExpr {
  JinjaExprPtr object;
  JinjaExprPtr start, stop, step;  // each may be null
};
struct JinjaArgExprs {
  std::vector<JinjaExprPtr> positional;
  std::vector<std::pair<std::string, JinjaExprPtr>> named;
  JinjaExprPtr star, star_star;  // *args and **kwargs; may be null
};
struct CallExpr {
  JinjaExprPtr callee;
  JinjaArgExprs args;
};
// A name that is no filter or test is found at run time, where jinja2 finds it (inside `if`).
struct FilterExpr {
  JinjaExprPtr subject;
  std::string name;
  JinjaArgExprs args;
};
struct TestExpr {
  JinjaExprPtr subject;
  std::string name;
  JinjaArgExprs args;
};

struct JinjaExpr {
  int line = 0;
  size_t depth = 1;  // of expressions inside each other, this one included
  std::variant<LiteralExpr, NameExpr, SequenceExpr, DictExpr, UnaryExpr, BinaryExpr, LogicExpr,
               ConcatExpr, CompareExpr, ConditionExpr, AttributeExpr, ItemExpr, SliceExpr, CallExpr,
               FilterExpr, TestExpr>
      node;
};

// ---- Statements

// What `set`, `for` and `with` assign to: a name, an attribute of a namespace, or several of these.
struct JinjaTarget {
  JinjaName name = 0;
  std::string attribute;  // not empty: the namespace `name`'s
  std::vector<JinjaTarget> parts;
  bool is_tuple = false;
};

struct JinjaParameter {
  std::string text;
  JinjaName name;
  JinjaExprPtr fallback;  // may be null
};
struct JinjaMacroCode {
  std::string name;
  std::vector<JinjaParameter> parameters;
  std::vector<JinjaStmt> body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct TextStmt {
  std::string text;
};
struct PrintStmt {
  JinjaExprPtr value;
};
struct SetStmt {
  JinjaTarget target;
  JinjaExprPtr value;
};
struct SetBlockStmt {
  JinjaTarget target;
  JinjaExprPtr filter;  // of the name kCaught; null: none
  JinjaBody body;
};
struct IfStmt {
  std::vector<std::pair<JinjaExprPtr, JinjaBody>> branches;
  JinjaBody otherwise;
};
struct ForStmt {
  JinjaTarget target;
  JinjaExprPtr iterable;
  JinjaExprPtr condition;  // null: none
  bool recursive = false;
  JinjaBody body, otherwise;
};
struct MacroStmt {
  JinjaName name;
  std::unique_ptr<const JinjaMacroCode> code;
};
struct CallBlockStmt {
  std::unique_ptr<const JinjaMacroCode> code;  // what `caller` runs
  JinjaExprPtr call;                           // a CallExpr
};
struct FilterBlockStmt {
  JinjaExprPtr filter;  // of the name kCaught
  JinjaBody body;
};
struct WithStmt {
  std::vector<std::pair<JinjaTarget, JinjaExprPtr>> variables;
  JinjaBody body;
};
struct ScopeStmt {  // {% generation %}: its own scope and nothing else
  JinjaBody body;
};
struct BlockStmt {
  std::string name;
  bool scoped = false;
  JinjaBody body;
};
struct BreakStmt {};
struct ContinueStmt {};

struct JinjaStmt {
  int line = 0;
  std::variant<TextStmt, PrintStmt, SetStmt, SetBlockStmt, IfStmt, ForStmt, MacroStmt,
               CallBlockStmt, FilterBlockStmt, WithStmt, ScopeStmt, BlockStmt, BreakStmt,
               ContinueStmt>
      node;
};

struct JinjaTemplate {
  // The name under which filter blocks find the text they filter; no template can spell it.
  static constexpr JinjaName kCaught = 0;
  static constexpr JinjaName kLoop = 1;
  static constexpr JinjaName kCaller = 2;
  static constexpr JinjaName kVarargs = 3;
  static constexpr JinjaName kKwargs = 4;

  std::vector<std::string> names = {"", "loop", "caller", "varargs", "kwargs"};
  JinjaBody body;
};

}  // namespace penstock
