package access

import "fmt"

// Person is who logs in, and what the person may do.
type Person struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Of a login by OpenID Connect: the issuer and the subject identify the person, and the group gave the role.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	Group   string `json:"group,omitempty"`
}

// Who identifies the person in the audit, and as the owner of uploads and actions. Names of a token have no space and no bracket, so nobody
// of an issuer is taken for somebody with a token.
func (p Person) Who() string {
	if p.Issuer == "" {
		return p.Name
	}
	return fmt.Sprintf("%s (%s of %s)", p.Name, p.Subject, p.Issuer)
}

// isSame reports whether two logins are of one person. An issuer may give a person another name.
func (p Person) isSame(o Person) bool {
	if p.Issuer == "" {
		return o.Issuer == "" && p.Name == o.Name
	}
	return p.Issuer == o.Issuer && p.Subject == o.Subject
}
