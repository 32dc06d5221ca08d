package rollout

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Amount is a number of targets, or a percentage of them. In JSON it is 3 or "25%".
type Amount struct {
	Value   int
	Percent bool
}

// ParseAmount reads "3" or "25%".
func ParseAmount(text string) (Amount, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return Amount{}, fmt.Errorf("%q is neither a number nor a percentage such as 25%%", text)
	}
	return Amount{Value: n, Percent: percent}, nil
}

// Of returns how many of total targets the amount is. A percentage is rounded up, and above 100 % it is all of them.
func (a Amount) Of(total int) int {
	if !a.Percent {
		return a.Value
	}
	return (min(a.Value, 100)*total + 99) / 100
}

// String returns the text that ParseAmount reads.
func (a Amount) String() string {
	if a.Percent {
		return strconv.Itoa(a.Value) + "%"
	}
	return strconv.Itoa(a.Value)
}

// MarshalJSON writes 3 or "25%".
func (a Amount) MarshalJSON() ([]byte, error) {
	if a.Percent {
		return json.Marshal(a.String())
	}
	return json.Marshal(a.Value)
}

// UnmarshalJSON reads 3, "3" or "25%".
func (a *Amount) UnmarshalJSON(data []byte) error {
	text := string(data)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	parsed, err := ParseAmount(text)
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}
