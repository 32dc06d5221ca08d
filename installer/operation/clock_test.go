package operation_test

import (
	"time"

	"github.com/sealift/sealift/installer/operation"
)

// clock is the example of a new operation: other time servers for all nodes. With its line in kinds, this is all of it: order, resuming,
// exclusion and status come from the engine.
func clock(do actions) []operation.Stage {
	return []operation.Stage{
		{ID: "clock/try", Title: "reach the new time servers from every node", Timeout: time.Hour, Nodes: operation.Everyone, AtOnce: 4, Tolerant: true},
		{ID: "clock/use", Title: "use them", Timeout: time.Hour, Nodes: operation.Everyone, AtOnce: 1, After: do.after("clock/use")},
	}
}
