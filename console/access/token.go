package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/console/jsonfile"
	"github.com/sealift/sealift/internal/atomicfile"
)

const (
	// TokenTime is how long a login token is valid.
	TokenTime = 10 * time.Minute
	// maxTokens is the maximum number of valid tokens.
	maxTokens = 64
	// maxName is the maximum length of a person's name, in bytes.
	maxName = 64
	// extension ends the names of the files of tokens and sessions.
	extension = ".json"
)

// skew is how far the clock of the host may be set back before tokens and sessions end: they would last longer than they should.
const skew = time.Minute

// ErrRefused is the answer to every token that is not valid. It does not say why.
var ErrRefused = errors.New("the token is not valid: it was used, it is older than 10 minutes, or it is mistyped")

// Token is what a login token gives.
type Token struct {
	Person
	Ends time.Time `json:"ends"`
}

// Tokens is the folder of login tokens. Each is a file that is named by the hash of its text.
type Tokens struct {
	Dir string
	Now func() time.Time
}

// Create makes a token that one person can use once, and returns its text. Tokens that have ended are removed.
func (t Tokens) Create(name string, role Role) (text string, made Token, err error) {
	if err := CheckName(name); err != nil {
		return "", made, err
	}
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return "", made, err
	}
	left, err := t.sweep()
	if err != nil {
		return "", made, err
	}
	if left >= maxTokens {
		return "", made, fmt.Errorf("%d login tokens are valid, which is the limit; wait until some end", left)
	}
	text = rand.Text()
	made = Token{Person: Person{Name: name, Role: role}, Ends: t.Now().Add(TokenTime)}
	return text, made, jsonfile.Write(t.file(text), made)
}

// Redeem returns what a token gives, and removes it. Of several callers with the same token, one gets it. The error is ErrRefused for
// a token that is not valid.
func (t Tokens) Redeem(text string) (Token, error) {
	name := t.file(strings.ToUpper(strings.TrimSpace(text)))
	var token Token
	if err := jsonfile.Read(name, &token); errors.Is(err, fs.ErrNotExist) {
		return Token{}, ErrRefused
	} else if err != nil {
		return Token{}, err
	}
	if err := os.Remove(name); errors.Is(err, fs.ErrNotExist) { // somebody else has just used it
		return Token{}, ErrRefused
	} else if err != nil {
		return Token{}, err
	}
	if !t.valid(token) {
		return Token{}, ErrRefused
	}
	return token, nil
}

func (t Tokens) valid(token Token) bool {
	left := token.Ends.Sub(t.Now())
	return left > 0 && left <= TokenTime+skew
}

// sweep removes tokens that have ended, and returns how many are left.
func (t Tokens) sweep() (left int, err error) {
	err = eachFile(t.Dir, func(name string) error {
		var token Token
		if err := jsonfile.Read(name, &token); err != nil || !t.valid(token) {
			return atomicfile.Remove(name)
		}
		left++
		return nil
	})
	return left, err
}

func (t Tokens) file(text string) string { return filepath.Join(t.Dir, digest(text)+extension) }

// CheckName accepts the names of people that a line of an audit and a page can show.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name for the audit has 1 to %d characters", maxName)
	}
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@+", r) {
			return fmt.Errorf("%q is not a name for the audit: use letters, digits and .-_@+", name)
		}
	}
	return nil
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// eachFile calls visit with each token or session of a folder. A missing folder has none.
func eachFile(dir string, visit func(name string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != extension || strings.HasPrefix(e.Name(), ".") {
			continue // a temporary file
		}
		if err := visit(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
