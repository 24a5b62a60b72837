package badgerstore

import (
	"encoding/binary"
	"math"

	"golang.org/x/sys/unix"
)

// An ACL in an extended attribute of Linux (linux/posix_acl_xattr.h) is a
// version, then entries of a tag, a permission and an id.
const (
	aclVersion = 2
	aclOwner   = 0x01
	aclGroup   = 0x04
	aclOthers  = 0x20
)

// restrictNewFiles sets the default ACL of a directory, so that only the owner
// may use the files that are created in it. Badger creates most of its files
// with mode 0666, at any time. A umask would change the whole process; a default
// ACL replaces it (acl(5)).
func restrictNewFiles(dir string) error {
	acl := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, entry := range [][2]uint16{{aclOwner, 7}, {aclGroup, 0}, {aclOthers, 0}} {
		acl = binary.LittleEndian.AppendUint16(acl, entry[0])
		acl = binary.LittleEndian.AppendUint16(acl, entry[1])
		acl = binary.LittleEndian.AppendUint32(acl, math.MaxUint32)
	}
	return unix.Setxattr(dir, "system.posix_acl_default", acl, 0)
}
