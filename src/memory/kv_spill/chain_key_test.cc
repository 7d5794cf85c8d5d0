#include "memory/kv_spill/chain_key.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace penstock {
namespace {

ChainKey of_chain(const ChainSecret& secret, std::string_view scope,
                  const std::vector<std::vector<uint64_t>>& pages) {
  ChainKey key = root_key(secret, scope);
  for (const auto& page : pages) key = next_key(secret, key, page);
  return key;
}

TEST(ChainKeys, DependOnAllThatAPageDependsOn) {
  const ChainSecret secret = make_chain_secret();
  const ChainKey key = of_chain(secret, "key a", {{1, 2}, {3, 4}});
  EXPECT_EQ(of_chain(secret, "key a", {{1, 2}, {3, 4}}), key);
  std::set<ChainKey> others = {of_chain(secret, "key b", {{1, 2}, {3, 4}}),
                               of_chain(secret, "", {{1, 2}, {3, 4}}),
                               of_chain(secret, "key a", {{1, 9}, {3, 4}}),
                               of_chain(secret, "key a", {{1, 2}, {3, 9}}),
                               of_chain(secret, "key a", {{3, 4}, {1, 2}}),
                               of_chain(secret, "key a", {{3, 4}}),
                               of_chain(secret, "key a", {{1, 2, 3, 4}}),
                               of_chain(make_chain_secret(), "key a", {{1, 2}, {3, 4}})};
  EXPECT_EQ(others.size(), 8U);
  EXPECT_FALSE(others.contains(key));
}

}  // namespace
}  // namespace penstock
