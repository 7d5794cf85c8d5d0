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
  const auto at_root = roots_.find(scope);
  if (at_root == roots_.end()) return found;
  ++clock_;
  Node* node = at_root->second.get();
  for (int64_t page = 0; page * kPageTokens < keys.size(); ++page) {
    const auto [child, n_common] = closest_child(*node, page_keys(keys, page));
    if (n_common == 0) break;
    touch(*child);
    found.n_positions += static_cast<int64_t>(n_common);
    if (!is_full(n_common)) {
      found.partial = child->page->share();
      break;
    }
    found.pages.push_back(child->page->share());
    node = child;
  }
  return found;
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
    if (child != nullptr && n_common == child->keys->size()) erase(*child);
    node = &add_child(*node, std::move(wanted), held.share());
  }
}

bool PrefixTree::evict_one() {
  const auto victim = std::ranges::find_if(
      leaves_, [](const auto& leaf) { return !leaf.second->page->is_shared(); });
  if (victim == leaves_.end()) return false;
  const Node* const parent = victim->second->parent;
  erase(*victim->second);
  if (parent->children.empty() && !parent->page) {
    std::erase_if(roots_, [&](const auto& root) { return root.second.get() == parent; });
  }
  return true;
}

int64_t PrefixTree::evict_all() {
  int64_t n = 0;
  while (evict_one()) ++n;
  return n;
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
  return child;
}

void PrefixTree::erase(Node& node) {
  PENSTOCK_CHECK(node.children.empty(), "only leaves leave the prefix tree");
  Node& parent = *node.parent;
  leaves_.erase({node.last_used, &node});
  pool_->set_cached(node.page->id(), false);
  parent.children.erase(parent.children.find(*node.keys));
  --n_pages_;
  if (parent.page && parent.children.empty()) leaves_.emplace(parent.last_used, &parent);
}

void PrefixTree::touch(Node& node) {
  if (!node.children.empty()) {
    node.last_used = clock_;
    return;
  }
  leaves_.erase({node.last_used, &node});
  node.last_used = clock_;
  leaves_.emplace(node.last_used, &node);
}

}  // namespace penstock
