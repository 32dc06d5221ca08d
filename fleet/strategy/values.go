package strategy

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// deadlinePattern is the pattern of the API. It is not anchored at its end, so it lets 5hx pass.
var deadlinePattern = regexp.MustCompile(`^(([0-9])+[h|m|s])|None$`)

// Deadline reads a progressDeadline. It returns nil for None and for an empty one.
func Deadline(text string) (*time.Duration, error) {
	if text == "" || text == "None" {
		return nil, nil
	}
	if !deadlinePattern.MatchString(text) {
		return nil, errors.New("invalid timeout format")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// size reads a number of clusters, or a percentage of total, which is rounded up. A result that is not positive or above total
// is replaced by the default.
func size(field string, value intstr.IntOrString, total, fallback int) (int, error) {
	n := value.IntValue()
	if value.Type == intstr.String {
		number, percent := strings.CutSuffix(value.StrVal, "%")
		f, err := strconv.ParseFloat(number, 64)
		switch {
		case !percent:
			return 0, fmt.Errorf("failed to parse the provided %s: '%s' is an invalid maximum threshold value: string is not a percentage", field, value.StrVal)
		case err != nil:
			return 0, fmt.Errorf("failed to parse the provided %s: %w", field, err)
		case math.IsNaN(f) || f > 100:
			return fallback, nil
		}
		n = int(math.Ceil(f / 100 * float64(total)))
	}
	if n <= 0 || n > total {
		return fallback, nil
	}
	return n, nil
}

// concurrency reads maxConcurrency. An empty value, and one that is not between 1 and total, means total.
func concurrency(value *intstr.IntOrString, total int) (int, error) {
	if value == nil {
		return total, nil
	}
	return size("maxConcurrency", *value, total, total)
}
