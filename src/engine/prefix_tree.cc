#include "engine/prefix_tree.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "base/check.h"
#include "kernels/attention/attention.h"

namespace penstock {
namespace {

// The keys of one page, the last of which may be short.
std::vector<PositionKey> page_keys(const PrefixKeys& keys, int64_t page) {
  const int64_t begin = page * kPageTokens;
  const int64_t end = std::min(begin + kPageTokens, keys.size());
  std::vector<PositionKey> of_page;
  of_page.reserve(static_cast<size_t>(end - begin));
  for (int64_t position = begin; position < end; ++position) of_page.push_back(keys.at(position));
  return of_page;
}

size_t common_prefix(const std::vector<PositionKey>& a, const std::vector<PositionKey>& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool is_full(size_t n_positions) { return n_positions == static_cast<size_t>(kPageTokens); }

}  // namespace

PrefixTree::~PrefixTree() {
  // Others may hold pages longer than the tree lives.
  for (const auto& [last_used, leaf] : leaves_) {
    for (const Node* node = leaf; node->page; node = node->parent) {
      pool_->set_cached(node->page->id(), false);
    }
  }
}

PrefixMatch PrefixTree::match(std::string_view scope, const PrefixKeys& keys) {
  PrefixMatch found;
  for (const auto& [node, n_common] : walk(scope, keys)) {
    touch(*node);
    found.n_positions += static_cast<int64_t>(n_common);
    if (is_full(n_common)) {
      found.pages.push_back(node->page->share());
    } else {
      found.partial = node->page->share();
    }
  }
  return found;
}

PrefixMatch PrefixTree::match_with_state(std::string_view scope, const PrefixKeys& keys) {
  const std::vector<Closest> path = walk(scope, keys);
  PrefixMatch found;
  for (size_t depth = path.size(); depth > 0 && !found.state; --depth) {
    const auto& [node, n_common] = path[depth - 1];
    const auto after = node->states.upper_bound(static_cast<int64_t>(n_common));
    if (after == node->states.begin()) continue;
    const auto& [n_in_page, state] = *std::prev(after);
    found.state = state.share();
    found.n_positions = static_cast<int64_t>(depth - 1) * kPageTokens + n_in_page;
    if (!is_full(static_cast<size_t>(n_in_page))) found.partial = node->page->share();
  }
  for (const auto& [node, n_common] : path) {
    if (static_cast<int64_t>(found.pages.size()) < found.n_positions / kPageTokens) {
      found.pages.push_back(node->page->share());
    }
    touch(*node);
  }
  return found;
}

std::vector<PrefixTree::Closest> PrefixTree::walk(std::string_view scope, const PrefixKeys& keys) {
  std::vector<Closest> path;
  const auto at_root = roots_.find(scope);
  if (at_root == roots_.end()) return path;
  ++clock_;
  const Node* node = at_root->second.get();
  for (int64_t page = 0; page * kPageTokens < keys.size(); ++page) {
    const Closest closest = closest_child(*node, page_keys(keys, page));
    if (closest.n_common == 0) break;
    path.push_back(closest);
    if (!is_full(closest.n_common)) break;
    node = closest.node;
  }
  return path;
}

void PrefixTree::insert(std::string_view scope, const PrefixKeys& keys,
                        std::vector<PageRef>& pages) {
  ++clock_;
  Node* node = &root(scope);
  for (int64_t page = 0; page * kPageTokens < keys.size(); ++page) {
    Keys wanted = page_keys(keys, page);
    PageRef& held = pages[static_cast<size_t>(page)];
    const auto [child, n_common] = closest_child(*node, wanted);
    if (child != nullptr && n_common == wanted.size()) {  // the tree has it, and maybe more
      touch(*child);
      if (!is_full(n_common)) return;
      if (held.id() != child->page->id()) held = child->page->share();
      node = child;
      continue;
    }
    // A leaf that ends where the new page goes on says nothing that the new one does not.
    std::map<int64_t, StateRef> states;
    if (child != nullptr && n_common == child->keys->size()) {
      states = std::exchange(child->states, {});
      with_states_.erase({child->last_used, child});
      erase(*child);
    }
    node = &add_child(*node, std::move(wanted), held.share());
    for (auto& [n_in_page, state] : states) add_state(*node, n_in_page, std::move(state));
  }
}

void PrefixTree::insert_state(std::string_view scope, const PrefixKeys& keys, StateRef state) {
  const std::vector<Closest> path = walk(scope, keys);
  const int64_t n_before = (static_cast<int64_t>(path.size()) - 1) * kPageTokens;
  PENSTOCK_CHECK(
      !path.empty() && n_before + static_cast<int64_t>(path.back().n_common) == keys.size(),
      "a state whose pages are not in the prefix tree");
  add_state(*path.back().node, keys.size() - n_before, std::move(state));
}

bool PrefixTree::evict_state() {
  for (const auto& [last_used, node] : with_states_) {
    const size_t n_before = node->states.size();
    std::erase_if(node->states, [](const auto& state) { return !state.second.is_shared(); });
    if (node->states.size() == n_before) continue;
    if (node->states.empty()) with_states_.erase({last_used, node});
    return true;
  }
  return false;
}

bool PrefixTree::evict_one() {
  Node* const victim = next_to_evict();
  if (victim == nullptr) return false;
  if (spill_ != nullptr && is_full(victim->keys->size())) spill(*victim);
  evict(*victim);
  return true;
}

int64_t PrefixTree::evict_all() {
  int64_t n = 0;
  for (; Node* const victim = next_to_evict(); ++n) evict(*victim);
  return n;
}

PrefixTree::Node* PrefixTree::next_to_evict() const {
  const auto victim = std::ranges::find_if(
      leaves_, [](const auto& leaf) { return !leaf.second->page->is_shared(); });
  return victim == leaves_.end() ? nullptr : victim->second;
}

void PrefixTree::evict(Node& leaf) {
  const Node* const parent = leaf.parent;
  erase(leaf);
  if (!parent->children.empty() || parent->page) return;
  std::erase_if(roots_, [&](const auto& root) { return root.second.get() == parent; });
}

bool PrefixTree::spill_one() {
  const auto next = next_to_spill();
  if (next == unspilled_.end()) return false;
  spill(**next);
  return true;
}

void PrefixTree::spill(Node& node) {
  leave_unspilled(node);
  spill_->keep(node.chain, node.parent->chain, node.page->id());
}

void PrefixTree::leave_unspilled(Node& node) {
  if (node.unspilled) unspilled_.erase(*std::exchange(node.unspilled, std::nullopt));
}

std::list<PrefixTree::Node*>::const_iterator PrefixTree::next_to_spill() const {
  if (pool_->n_idle() == 0) return unspilled_.end();
  return std::ranges::find_if(unspilled_,
                              [](const Node* node) { return !node->page->is_shared(); });
}

PrefixTree::Closest PrefixTree::closest_child(const Node& node, const Keys& keys) {
  Closest best;
  const auto consider = [&](const auto& child) {
    const size_t n_common = common_prefix(child.first, keys);
    if (best.node == nullptr || n_common > best.n_common) best = {child.second.get(), n_common};
  };
  const auto after = node.children.lower_bound(keys);
  if (after != node.children.end()) consider(*after);
  if (after != node.children.begin()) consider(*std::prev(after));
  return best;
}

PrefixTree::Node& PrefixTree::root(std::string_view scope) {
  auto found = roots_.find(scope);
  if (found == roots_.end()) {
    found = roots_.emplace(std::string(scope), std::make_unique<Node>()).first;
    if (spill_ != nullptr) found->second->chain = spill_->root(scope);
  }
  return *found->second;
}

PrefixTree::Node& PrefixTree::add_child(Node& parent, Keys keys, PageRef page) {
  if (parent.page && parent.children.empty()) leaves_.erase({parent.last_used, &parent});
  const auto [place, added] = parent.children.emplace(std::move(keys), std::make_unique<Node>());
  PENSTOCK_CHECK(added, "the prefix tree has these positions already");
  Node& child = *place->second;
  child.parent = &parent;
  child.keys = &place->first;
  child.last_used = clock_;
  pool_->set_cached(page.id(), true);
  child.page = std::move(page);
  leaves_.emplace(child.last_used, &child);
  ++n_pages_;
  if (spill_ != nullptr && is_full(child.keys->size())) {
    child.chain = spill_->next(parent.chain, *child.keys);
    if (!spill_->has(child.chain)) child.unspilled = unspilled_.insert(unspilled_.end(), &child);
  }
  return child;
}

void PrefixTree::erase(Node& node) {
  PENSTOCK_CHECK(node.children.empty(), "only leaves leave the prefix tree");
  Node& parent = *node.parent;
  leave_unspilled(node);
  leaves_.erase({node.last_used, &node});
  with_states_.erase({node.last_used, &node});
  pool_->set_cached(node.page->id(), false);
  parent.children.erase(parent.children.find(*node.keys));
  --n_pages_;
  if (parent.page && parent.children.empty()) leaves_.emplace(parent.last_used, &parent);
}

void PrefixTree::add_state(Node& node, int64_t n_positions, StateRef state) {
  node.states.emplace(n_positions, std::move(state));
  with_states_.emplace(node.last_used, &node);
}

void PrefixTree::touch(Node& node) {
  const bool is_leaf = leaves_.erase({node.last_used, &node}) > 0;
  const bool has_states = with_states_.erase({node.last_used, &node}) > 0;
  node.last_used = clock_;
  if (is_leaf) leaves_.emplace(clock_, &node);
  if (has_states) with_states_.emplace(clock_, &node);
}

}  // namespace penstock
