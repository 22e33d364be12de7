CREATE TABLE "reading" ("id" VARCHAR(36) NOT NULL PRIMARY KEY, "project" VARCHAR(255) NOT NULL, "reader_id" VARCHAR(36) NOT NULL, "parameter" VARCHAR(255) NOT NULL, "owner_id" VARCHAR(36) NOT NULL, "owner_name" VARCHAR(255) NOT NULL, "output" VARCHAR(255) NOT NULL, "value" LONGTEXT NOT NULL, "read_at" REAL NOT NULL, "action_id" VARCHAR(36) NOT NULL)
CREATE INDEX "reading_owner_id" ON "reading" ("owner_id")
CREATE INDEX "reading_reader_id_read_at" ON "reading" ("reader_id", "read_at")
