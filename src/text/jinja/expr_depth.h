// How deeply the expressions in a node of the tree are nested: bounded when the node is made.
#pragma once

#include <algorithm>

#include "text/jinja/ast.h"

namespace penstock {

inline size_t expr_depth(const JinjaExprPtr& expr) { return expr ? expr->depth : 0; }

template <class First, class Second>
inline size_t expr_depth(const std::pair<First, Second>& pair);

template <class Item>
inline size_t expr_depth(const std::vector<Item>& items) {
  size_t deepest = 0;
  for (const Item& item : items) deepest = std::max(deepest, expr_depth(item));
  return deepest;
}

inline size_t expr_depth(const std::string& /*text*/) { return 0; }
inline size_t expr_depth(JinjaComparison /*op*/) { return 0; }

template <class First, class Second>
inline size_t expr_depth(const std::pair<First, Second>& pair) {
  return std::max(expr_depth(pair.first), expr_depth(pair.second));
}

inline size_t expr_depth(const JinjaArgExprs& args) {
  return std::max({expr_depth(args.positional), expr_depth(args.named), expr_depth(args.star),
                   expr_depth(args.star_star)});
}

// Depth of what a node holds.
inline size_t depth_inside(const LiteralExpr& /*node*/) { return 0; }
inline size_t depth_inside(const SequenceExpr& node) { return expr_depth(node.items); }
inline size_t depth_inside(const DictExpr& node) { return expr_depth(node.entries); }
inline size_t depth_inside(const UnaryExpr& node) { return expr_depth(node.operand); }
inline size_t depth_inside(const BinaryExpr& node) {
  return std::max(expr_depth(node.left), expr_depth(node.right));
}
inline size_t depth_inside(const LogicExpr& node) {
  return std::max(expr_depth(node.left), expr_depth(node.right));
}
inline size_t depth_inside(const ConcatExpr& node) { return expr_depth(node.parts); }
inline size_t depth_inside(const CompareExpr& node) {
  return std::max(expr_depth(node.first), expr_depth(node.rest));
}
inline size_t depth_inside(const ConditionExpr& node) {
  return std::max({expr_depth(node.test), expr_depth(node.then), expr_depth(node.otherwise)});
}
inline size_t depth_inside(const AttributeExpr& node) { return expr_depth(node.object); }
inline size_t depth_inside(const ItemExpr& node) {
  return std::max(expr_depth(node.object), expr_depth(node.index));
}
inline size_t depth_inside(const SliceExpr& node) {
  return std::max({expr_depth(node.object), expr_depth(node.start), expr_depth(node.stop),
                   expr_depth(node.step)});
}
inline size_t depth_inside(const CallExpr& node) {
  return std::max(expr_depth(node.callee), expr_depth(node.args));
}
inline size_t depth_inside(const FilterExpr& node) {
  return std::max(expr_depth(node.subject), expr_depth(node.args));
}
inline size_t depth_inside(const TestExpr& node) {
  return std::max(expr_depth(node.subject), expr_depth(node.args));
}

}  // namespace penstock
