#include "cuda/device_objects.h"

namespace penstock {

Result<DeviceMemory> DeviceMemory::allocate(Driver& driver, size_t bytes) {
  PENSTOCK_ASSIGN(const DeviceBytes memory, settled(driver, driver.allocate(bytes)));
  return DeviceMemory(driver, memory);
}

Result<Stream> Stream::create(Driver& driver) {
  PENSTOCK_ASSIGN(const StreamId id, settled(driver, driver.create_stream()));
  return Stream(driver, id);
}

Result<Event> Event::create(Driver& driver) {
  PENSTOCK_ASSIGN(const EventId id, settled(driver, driver.create_event()));
  return Event(driver, id);
}

}  // namespace penstock
