// One writer a data folder. The locks are the kernel's, on the folder itself and on a file in it: they end with the
// process, however it ends. The file names the process, and may be deleted or stay behind without harm; a folder cannot
// be replaced under its name as long as the database is in it.
#pragma once

#include <filesystem>

namespace pawl::sqlite {

// Makes the folder when it is missing. Either way it is for its owner only, with all that is in it (private_files.h).
void make_folder(const std::filesystem::path& folder);

// Which files the folder has is on the disk when this returns.
void sync_folder(const std::filesystem::path& folder);

// Whether a process holds the folder just now.
bool is_folder_locked(const std::filesystem::path& folder);

class FolderLock {
 public:
  // Throws StoreFailure, naming the process, when another one holds it.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  void release();

  int folder_ = -1;
  int file_ = -1;
};

}  // namespace pawl::sqlite
