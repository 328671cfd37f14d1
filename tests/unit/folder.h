/* For tests that leave files in a folder of their own. */
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

/* Removes the folder and its files, but those whose names begin with a point. */
static inline void remove_folder(const char *dir)
{
	DIR *d = opendir(dir);

	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(dir);
}
