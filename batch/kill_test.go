package batch_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/store"
)

// The environment of a coordinator in its own process, so that it can be killed.
const (
	coordinatorAPI       = "BATCH_TEST_API"
	coordinatorStore     = "BATCH_TEST_STORE"
	coordinatorNamespace = "BATCH_TEST_NAMESPACE"
	coordinatorPieces    = "BATCH_TEST_PIECES"
)

// coordinate runs a batch and prints its outcomes.
func coordinate() int {
	outcomes, err := func() ([]batch.Outcome, error) {
		n, err := strconv.Atoi(os.Getenv(coordinatorPieces))
		if err != nil {
			return nil, err
		}
		cluster, err := kube.Connect(&rest.Config{Host: os.Getenv(coordinatorAPI)}, nil)
		if err != nil {
			return nil, err
		}
		s, err := store.Opener{Write: true}.Open(os.Getenv(coordinatorStore))
		if err != nil {
			return nil, err
		}
		return batch.Run(context.Background(), cluster, s, numbers(n), optionsFor(os.Getenv(coordinatorNamespace)))
	}()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(outcomes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// coordinator starts a process that runs a batch of n pieces through an API server that counts its requests.
func (s *site) coordinator(api string, n int) (*exec.Cmd, *bytes.Buffer) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), coordinatorAPI+"="+api, coordinatorStore+"="+s.location, coordinatorNamespace+"="+s.namespace, coordinatorPieces+"="+strconv.Itoa(n))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return cmd, &out
}

// TestKilledCoordinatorIsResumed kills the coordinator five times, and again after the Job has ended without it.
func TestKilledCoordinatorIsResumed(t *testing.T) {
	t.Parallel()
	newSite(t, t.TempDir(), 5, 4).outlivesKills(50)
}

// outlivesKills runs a batch of n pieces and kills its coordinator five times.
func (s *site) outlivesKills(n int) {
	s.Helper()
	permits := make(chan struct{}, n)
	s.do = func(_ context.Context, input json.RawMessage, _ int) (any, error) {
		<-permits
		return square(input)
	}
	var requests atomic.Int64
	api := controlplane.Through(s, s.config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		requests.Add(1)
		pass.ServeHTTP(w, r)
	}).Host
	all := s.requests()
	began := time.Now()
	results := filepath.Join(s.location, "batch", "results")
	const kills = 5
	for kill := range kills {
		cmd, out := s.coordinator(api, n)
		s.theJob()
		for range n / (kills + 1) {
			permits <- struct{}{}
		}
		for wanted := (kill + 1) * (n / (kills + 1)); ; time.Sleep(10 * time.Millisecond) {
			if done, err := filepath.Glob(filepath.Join(results, "*.json")); err != nil || len(done) >= wanted {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			s.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || out.Len() > 0 {
			s.Fatalf("the coordinator ended by itself: %v %s", err, out)
		}
	}
	close(permits)
	cmd, out := s.coordinator(api, n)
	if err := cmd.Wait(); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	took := time.Since(began)
	s.leavesNothing()
	var outcomes []batch.Outcome
	if err := json.Unmarshal(out.Bytes(), &outcomes); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	for i, o := range outcomes {
		if string(o.Output) != strconv.Itoa(i*i) {
			s.Errorf("piece %d: %s %q", i, o.Output, o.Failure)
		}
	}
	tries, again := s.ran()
	seen := s.kubelet.Seen()
	if len(outcomes) != n || tries != n {
		s.Errorf("%d outcomes and %d tries of %d pieces; these ran again: %v", len(outcomes), tries, n, again)
	}
	s.Logf("%d pieces, coordinator killed %d times: %s; from the first pod on a node to the last %s; %d API calls of the coordinators (%.3f per piece), %.1f per piece in all",
		n, kills, took.Round(time.Millisecond), seen.Last.Sub(seen.First).Round(time.Millisecond), requests.Load(), float64(requests.Load())/float64(n), float64(s.requests()-all)/float64(n))
	if most := int64(10 * (kills + 1)); requests.Load() > most {
		s.Errorf("%d API calls of the coordinators, more than %d", requests.Load(), most)
	}
}

// requests returns how many requests the API server has answered, including those of the scheduler, controllers and the test's
// kubelet.
func (s *site) requests() (total int64) {
	s.Helper()
	metrics, err := s.client.RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(metrics)); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "apiserver_request_total{") {
			continue
		}
		_, number, _ := strings.Cut(lines.Text(), "} ")
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			s.Fatal(err)
		}
		total += int64(n)
	}
	return total
}

// TestFinishedJobIsTakenOver kills a coordinator at once and restarts it when the Job has ended.
func TestFinishedJobIsTakenOver(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 4)
	api := controlplane.Through(t, s.config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) { pass.ServeHTTP(w, r) }).Host
	cmd, _ := s.coordinator(api, 4)
	name := s.theJob().Name
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for {
		job, err := s.client.BatchV1().Jobs(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if job.Status.CompletionTime != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for i, o := range s.run(numbers(4), s.options()) {
		if string(o.Output) != strconv.Itoa(i*i) || !o.Earlier {
			t.Errorf("piece %d: %+v", i, o)
		}
	}
}

// TestTwoCoordinatorsShareJob runs the same batch twice at the same time.
func TestTwoCoordinatorsShareJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 4)
	started := make(chan string, 2)
	o := s.options()
	o.Started = func(job kube.Ref, _ int) { started <- job.Name }
	names := map[string]bool{}
	release := make(chan struct{})
	s.do = func(_ context.Context, input json.RawMessage, _ int) (any, error) {
		<-release
		return square(input)
	}
	var group errgroup.Group
	for range 2 {
		group.Go(func() error {
			outcomes, err := batch.Run(t.Context(), s.cluster(), s.store, numbers(4), o)
			for i, o := range outcomes {
				if string(o.Output) != strconv.Itoa(i*i) {
					t.Errorf("piece %d: %+v", i, o)
				}
			}
			return err
		})
	}
	for range 2 {
		names[<-started] = true
	}
	close(release)
	if err := group.Wait(); err != nil || len(names) != 1 {
		t.Errorf("the Jobs are %v: %v", names, err)
	}
	s.leavesNothing()
	if tries, again := s.ran(); tries != 4 {
		t.Errorf("%d tries, these more than once: %v", tries, again)
	}
}
