package release_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// many returns n small packages.
func many(n int) (list []release.Candidate) {
	for i := range n {
		list = append(list, candidate(fmt.Sprintf("add-on-%d", i), "1", fmt.Sprint("content ", i)))
	}
	return list
}

// counting counts what takes longer the more packages a release has.
type counting struct {
	store.Store
	lists, swaps int
}

func (c *counting) List(ctx context.Context, prefix string) ([]store.Info, error) {
	c.lists++
	return c.Store.List(ctx, prefix)
}

func (c *counting) Swap(ctx context.Context, key string, data []byte, old string) (string, error) {
	c.swaps++
	return c.Store.Swap(ctx, key, data, old)
}

func TestIndexIsWrittenOncePerPublish(t *testing.T) {
	c := &counting{Store: open(t, t.TempDir())}
	start := time.Now()
	publish(t, release.In(c, ""), many(300)...)
	extra := int(time.Since(start) / (30 * time.Second)) // in transit
	if c.swaps > 1+extra || c.lists > 3+2*extra {
		t.Errorf("300 packages took %d writings of the index and %d lists of the store", c.swaps, c.lists)
	}
}

// publishTo names the variable with the target of a child that publishes until it is killed.
const publishTo = "RELEASE_TEST_STORE"

func TestPublishUntilKilled(t *testing.T) {
	location := os.Getenv(publishTo)
	if location == "" {
		return // TestKilledPublishIsResumedAtAnyMoment runs this
	}
	publish(t, release.In(open(t, location), ""), many(manyKilled)...)
}

const manyKilled = 400

func TestKilledPublishIsResumedAtAnyMoment(t *testing.T) {
	server := objects.Start(t)
	for name, location := range map[string]string{"in a folder": t.TempDir(), "in a bucket": server.URL("killed")} {
		t.Run(name, func(t *testing.T) {
			for moment := range 10 {
				ctx, kill := context.WithTimeout(t.Context(), time.Duration(50+60*moment)*time.Millisecond)
				child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestPublishUntilKilled$")
				child.Env = append(os.Environ(), publishTo+"="+location)
				_ = child.Run() // reports that it was killed
				kill()
			}
			packages := many(manyKilled)
			publish(t, release.In(open(t, location), ""), packages...)
			if got := listed(t, release.In(open(t, location), "")); len(got) != len(packages) {
				t.Errorf("%d of %d packages are in the index", len(got), len(packages))
			}
		})
	}
}
