package oidc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/spec"
)

// maxName is the maximum length of a name, a subject and a group, in bytes. A subject has at most 255 (OpenID Connect Core 1.0, section 2).
const maxName = 255

// person returns who a verified token is about. The rules for names and groups are those of the cluster's API servers.
func (c *Client) person(token *oidc.IDToken) (p access.Person, err error) {
	o, i, err := c.login(c.File) // the Installer may have changed since the login began
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return p, refused("the ID token is not valid: %s", shown(err.Error()))
	}
	err = errors.Join(c.checkParties(token, claims["azp"]), c.checkTime(token.IssuedAt))
	if err == nil && token.Issuer != i.URL {
		err = fmt.Errorf("%s is not the issuer of this console any more", token.Issuer)
	}
	if err != nil {
		return p, Refused{err.Error()}
	}
	name, groups, err := names(i, claims)
	if err == nil && !plain(token.Subject) {
		err = errors.New("the ID token has no subject of 1 to 255 visible characters")
	}
	if err != nil {
		return p, Refused{err.Error()}
	}
	p = access.Person{Name: name, Issuer: token.Issuer, Subject: token.Subject}
	p.Role, p.Group = roleOf(o, groups)
	if p.Role == "" {
		return p, refused("%s has no role: kubernetes.oidc of the Installer names none of the %d groups of this person in admins, operators or viewers", p.Name, len(groups))
	}
	return p, nil
}

// checkParties refuses a token that was issued to another client, even if it is for this one, too (OpenID Connect Core 1.0, section 3.1.3.7).
func (c *Client) checkParties(token *oidc.IDToken, authorized any) error {
	switch {
	case authorized == nil && len(token.Audience) > 1:
		return fmt.Errorf("the ID token is for several clients (%s), and does not say in azp for which it was issued", shown(strings.Join(token.Audience, ", ")))
	case authorized != nil && authorized != c.ClientID:
		return fmt.Errorf("the ID token was issued to another client (azp is %s)", shown(fmt.Sprint(authorized)))
	}
	return nil
}

// checkTime refuses a token of the future.
func (c *Client) checkTime(issued time.Time) error {
	if ahead := issued.Sub(c.Now()); ahead > skew {
		return fmt.Errorf("the ID token is issued %s in the future; set the clock of the issuer or of this node", ahead.Round(time.Second))
	}
	return nil
}

// names returns the name and the groups of a person, as the cluster has them: with the prefixes of the issuer.
func names(i spec.Issuer, claims map[string]any) (name string, groups []string, err error) {
	name, _ = claims[i.Claims.Username].(string)
	if verified, given := claims["email_verified"]; i.Claims.Username == "email" && given && verified != true {
		return "", nil, errors.New("the issuer has not verified the e-mail address of this person")
	}
	if !plain(name) {
		return "", nil, fmt.Errorf("the claim %s of the ID token is not a name of 1 to 255 visible characters", i.Claims.Username)
	}
	name = i.Claims.UsernamePrefix + name
	switch of := claims[i.Claims.Groups].(type) {
	case string:
		groups = []string{i.Claims.GroupsPrefix + of}
	case []any:
		for _, one := range of {
			group, ok := one.(string)
			if !ok {
				return "", nil, fmt.Errorf("the claim %s of the ID token is not a list of strings", i.Claims.Groups)
			}
			groups = append(groups, i.Claims.GroupsPrefix+group)
		}
	case nil:
	default:
		return "", nil, fmt.Errorf("the claim %s of the ID token is not a list of strings", i.Claims.Groups)
	}
	if spec.ReservedName(name) || slices.ContainsFunc(groups, spec.ReservedName) {
		return "", nil, errors.New(spec.ReservedNames)
	}
	return name, groups, nil
}

// plain reports whether a text can be a name in a line of the audit.
func plain(text string) bool {
	return text != "" && len(text) <= maxName && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsGraphic(c) || c == unicode.ReplacementChar })
}

// word is a role, and the groups in the Installer whose members have it.
type word struct {
	role   access.Role
	groups []string
}

// words are the roles of the Installer, the highest first.
func words(o *spec.OIDC) []word {
	return []word{{access.Administrator, o.Admins}, {access.Operator, o.Operators}, {access.Viewer, o.Viewers}}
}

// roleOf returns the highest role that a person's groups give, and the group that gives it; "" for none.
func roleOf(o *spec.OIDC, groups []string) (access.Role, string) {
	for _, w := range words(o) {
		for _, group := range w.groups {
			if slices.Contains(groups, group) {
				return w.role, group
			}
		}
	}
	return "", ""
}

// Holds reports whether the Installer still gives a person the role of the login: the same issuer, and the same group. The issuer is not
// asked again.
func (c *Client) Holds(p access.Person) bool {
	o, i, err := c.login(c.File)
	if err != nil || i.URL != p.Issuer {
		return false
	}
	return slices.ContainsFunc(words(o), func(w word) bool { return w.role == p.Role && slices.Contains(w.groups, p.Group) })
}
